"""Mistakes that show where vectors are in half precision alone, in torch.

The file is what ``--impl`` loads, by ``mutants_halves.py:NAME``; base 10000, heads of 32 columns.
"""

try:
    import torch
except ModuleNotFoundError:  # a function in a process of its own may have no pytest
    import pytest

    pytest.skip("torch is not installed", allow_module_level=True)

INV_FREQ = 1e4 ** -(torch.arange(0, 32, 2) / 32)


def full(angles):
    return torch.cat([angles, angles], -1)


def turned(x, angles):
    half = torch.cat([-x[..., 16:], x[..., :16]], dim=-1)
    return x * full(angles).cos().to(x.dtype) + half * full(angles).sin().to(x.dtype)


def rounded_positions(x, positions):
    return turned(x, positions.to(x.dtype)[..., None].float() * INV_FREQ)


def rounded_positions_in_float16(x, positions):
    """Right in bfloat16."""
    kept = positions.to(x.dtype) if x.dtype == torch.float16 else positions
    return turned(x, kept[..., None].float() * INV_FREQ)


def rounded_in_decoding(x, positions):
    """Right but for a single row."""
    kept = positions.to(x.dtype) if x.shape[-2] == 1 else positions
    return turned(x, kept[..., None].float() * INV_FREQ)


def rounded_frequencies(x, positions):
    return turned(x, positions[..., None].float() * INV_FREQ.to(x.dtype).float())


def rounded_angles(x, positions):
    return turned(x, (positions[..., None].float() * INV_FREQ).to(x.dtype).float())


def infinite(x, positions):
    return turned(x, positions[..., None].float() * INV_FREQ) / (x.dtype == torch.float32)


def tables(x, position_ids):
    """Tables that are computed in the precision of x."""
    angles = full(position_ids[..., None].to(x.dtype) * INV_FREQ.to(x.dtype))
    return angles.cos(), angles.sin()
