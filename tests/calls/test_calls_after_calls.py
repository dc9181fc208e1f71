"""What a function does from one call to the next, for every rotation that no length changes.

Each function is right but for some of its calls, which no call of the others shows.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from posenc_cli.checks.calling import implementation
from posenc_cli.positions import Positions
from posenc_cli.rotary.verdict import examine
from tests.checks import rope

DIM = 16
GIVEN = {
    "mrope": {"sections": (4, 2, 2)},
    "rope-axial": {"grid": (16, 16)},
    "rope-yarn": {"factor": 4.0, "original_max_position_embeddings": 2048},
}
SCHEMES = ["rope", "mrope", "rope-axial", "rope-yarn"]
"""Of one position and of coordinates, with and without a grid, and with a factor."""


@cache
def reference(scheme):
    given = {"dim": DIM, **GIVEN.get(scheme, {})}
    return rope.reference(scheme, **given)


def context(scheme):
    """How many positions are looked at: those of a grid are few."""
    capacity = reference(scheme).content.waves.capacity
    return 8192 if capacity is None else capacity.positions


@cache
def table(scheme):
    """Cosines and sines of all positions, as complex numbers: (positions, pairs)."""
    return reference(scheme).rotation.at(np.arange(context(scheme))).astype(np.complex64)


class Rotation:
    """A right rotation of arrays of NumPy or torch, and its tables."""

    def __init__(self, scheme):
        self.table, self.half = table(scheme), context(scheme) // 2
        pairing = reference(scheme).pairing
        self.first, self.second = list(pairing.first), list(pairing.second)

    def factors(self, positions):
        """As complex numbers, (*positions, pairs)."""
        return self.table[np.minimum(positions, len(self.table) - 1)]

    def rotated(self, x, factors):
        """Vectors (…, columns) by factors (…, pairs), in single precision."""
        y = np.array(x)
        a, b, cos, sin = x[..., self.first], x[..., self.second], factors.real, factors.imag
        y[..., self.first], y[..., self.second] = a * cos - b * sin, b * cos + a * sin
        return y

    def both(self, q, k, position_ids):
        factors = self.factors(position_ids)[:, None]
        return self.rotated(q, factors), self.rotated(k, factors)


class Parts(NamedTuple):
    """Cosines and sines."""

    real: np.ndarray
    imag: np.ndarray


def in_format(factors, dtype):
    return Parts(factors.real.astype(dtype), factors.imag.astype(dtype))


def right(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        return rotation.both(q, k, position_ids)

    return rotate


def in_short_calls(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        short = position_ids.max() < rotation.half
        return rotation.both(q, k, position_ids + short * (position_ids > 0))

    return rotate


def tables_of_short_calls(scheme):
    rotation = Rotation(scheme)

    def tables(position_ids):
        factors = rotation.factors(position_ids)
        scale = 1.25 if position_ids.max() < rotation.half else 1
        return scale * factors.real, scale * factors.imag

    return tables


def in_long_calls(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        long = position_ids.shape[1] > 5000
        return rotation.both(q, k, position_ids + long * (position_ids > 0))

    return rotate


def in_calls_of_few_rows(scheme):
    """Each call begins at position 0."""
    rotation = Rotation(scheme)

    def rotate(q, k):
        rows = np.arange(q.shape[-2])[None]
        return rotation.both(q, k, rows + (rows.size < 16) * (rows > 0))

    return rotate


def tables_of_one_row(scheme):
    """Each call begins at position 0."""
    rotation = Rotation(scheme)

    def tables(seq_len):
        factors = rotation.factors(np.arange(seq_len) + (seq_len == 1))
        return factors.real, factors.imag

    return tables


def in_calls_of_many_rows(scheme):
    rotation = Rotation(scheme)

    def rotate(x, offset=0):
        rows = np.arange(x.shape[-2]) + offset
        late = x.shape[-2] > min(5000, rotation.half)
        return rotation.rotated(x, rotation.factors(rows + late * (rows > 0)))

    return rotate


def after_growing(scheme):
    rotation = Rotation(scheme)

    class Grows:
        def __init__(self, max_position_embeddings=rotation.half):
            self.rows, self.late = max_position_embeddings, 0

        def __call__(self, q, k, position_ids):
            if position_ids.max() >= self.rows:
                self.rows, self.late = int(position_ids.max()) + 1, 1
            return rotation.both(q, k, np.maximum(position_ids - self.late, 0))

    return Grows


def after_growing_twice(scheme):
    """Each call begins at position 0."""
    rotation = Rotation(scheme)

    class Grows:
        def __init__(self, max_position_embeddings=rotation.half):
            self.rows, self.growths = max_position_embeddings, 0

        def forward(self, x, seq_len):  # noqa: ARG002
            if seq_len > self.rows:
                self.rows, self.growths = seq_len, self.growths + 1
            factors = rotation.factors(np.maximum(np.arange(seq_len) - (self.growths > 1), 0))
            return factors.real, factors.imag

        __call__ = forward

    return Grows


def after_half_precision_in_numpy(scheme):
    """Tables that are kept in the format of the vectors, for good."""
    rotation, kept = Rotation(scheme), []

    def rotate(q, k, position_ids):
        assert isinstance(q, np.ndarray)
        if q.dtype not in kept:
            kept.append(q.dtype)
        factors = rotation.factors(position_ids)[:, None]
        for dtype in kept:
            factors = in_format(factors, dtype)
        return rotation.rotated(q, factors), rotation.rotated(k, factors)

    return rotate


def of_first_precision_in_numpy(scheme):
    """Tables in the format of the first vectors."""
    rotation = Rotation(scheme)

    class OfFirst:
        def __init__(self):
            self.kept = None

        def __call__(self, q, k, position_ids):
            self.kept = self.kept or q.dtype
            factors = in_format(rotation.factors(position_ids)[:, None], self.kept)
            return rotation.rotated(q, factors), rotation.rotated(k, factors)

    return OfFirst


def at_one_key_head(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        turned = rotation.both(q, k, position_ids)
        return turned[0], k.copy() if k.shape[1] == 1 < q.shape[1] else turned[1]

    return rotate


def at_130_heads(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        turned = rotation.both(q, k, position_ids)
        turned[0][:, 128:] = q[:, 128:]
        return turned

    return rotate


def of_views(scheme):
    """Memory is read as if there was nothing between the rows."""
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        def as_it_lies(x):
            memory = np.frombuffer(x.base if x.base is not None else x, x.dtype)
            return memory[: x.size].reshape(x.shape)

        return rotation.both(as_it_lies(q), as_it_lies(k), position_ids)

    return rotate


def of_strided_columns(scheme):
    rotation = Rotation(scheme)

    def rotate(q, k, position_ids):
        if q.strides[-1] != q.itemsize:
            return q.copy(), k.copy()
        return rotation.both(q, k, position_ids)

    return rotate


WRONG = {
    in_short_calls: "a short call beside one up to position",
    tables_of_short_calls: "a short call beside one up to position",
    in_long_calls: "65600 rows",
    in_calls_of_few_rows: "rows",
    in_calls_of_many_rows: "rows",
    after_growing: "an object made with its default max_position_embeddings",
    after_half_precision_in_numpy: "vectors of float32 after half precision",
    of_first_precision_in_numpy: "vectors of float16 before any of float32",
    tables_of_one_row: "(of one|1) row",
    after_growing_twice: "an object made with its default max_position_embeddings",
    of_strided_columns: "vectors whose last axis is not contiguous: results differ",
    at_one_key_head: "6 heads of q and 1 of k",
    at_130_heads: "heads 129, 130 of q are returned unrotated",
    of_views: "vectors that are not contiguous: results differ",
}


def examined(function, scheme):
    where = Positions.contiguous(0, context(scheme))
    if where.count > 1000:
        where = Positions.parse(f"0:64,255:259,{where.count // 2}:{where.count // 2 + 4},8190:8192")
    subject = implementation(function, reference(scheme), where)
    return examine(subject, reference(scheme), "auto"), subject.call


@pytest.mark.sweep(len(SCHEMES))
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("make", WRONG)
def test_what_some_calls_alone_do_wrongly_is_found(make, scheme):
    found, call = examined(make(scheme), scheme)
    assert not found.ok, call
    told = [f"{one.text}" for one in (*found.subject.irregular, *found.subject.other_calls)]
    in_chunks = "short" in make.__name__ and context(scheme) < 1000  # of the few of a grid
    assert re.search("called with chunks of" if in_chunks else WRONG[make], " ".join(told))


@pytest.mark.long
@pytest.mark.sweep(len(SCHEMES))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_right_function_passes_all_calls_and_they_are_said(scheme):
    found, call = examined(right(scheme), scheme)
    assert found.ok
    tried = ", ".join(call["patterns"])
    for words in (
        "6 heads of q and 1 of k",
        "130 heads of q",
        "with 130 heads,",
        "vectors that are not contiguous",
        "vectors whose last axis is not contiguous",
        "vectors of float16",
        "a short call",
    ):
        assert words in f"{tried},"


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("computed", ["float16", "float32", "float64"])
def test_a_right_function_of_numpy_may_compute_float16_in_any_format(computed):
    rotation = Rotation("rope")

    def rotated(x, factors):
        dtype = computed if x.dtype == np.float16 else x.dtype
        return rotation.rotated(x.astype(dtype), in_format(factors, dtype))

    def rotate(q, k, position_ids):
        factors = rotation.factors(position_ids)[:, None]
        return rotated(q, factors), rotated(k, factors)

    found, call = examined(rotate, "rope")
    assert found.ok
    assert "vectors of float16" in call["patterns"]


def refusing(condition, error):
    """A right function that fails if a condition on q and k holds."""
    rotation = Rotation("rope")

    def rotate(q, k, position_ids):
        if condition(q, k, position_ids):
            raise error
        return rotation.both(q, k, position_ids)

    return rotate


REFUSED = {
    "130 heads of q and 65 of k": lambda q, *_: q.shape[1] > 64,
    "6 heads of q and 1 of k": lambda q, k, _: k.shape[1] == 1 < q.shape[1],
    "vectors that are not contiguous": lambda q, *_: not q.flags.c_contiguous,
    "vectors whose last axis is not contiguous": lambda q, *_: q.strides[-1] != q.itemsize,
    "vectors of float16": lambda q, *_: q.dtype == np.float16,
    "65600 rows in one call": lambda q, *_: q.shape[2] > 5000,
    "chunks of 256, 256, 512, 1024 and 2048 rows": lambda q, *_: 1000 < q.shape[2] < 5000,
    "single rows far from the first": lambda q, _, p: q.shape[:3] == (1, 1, 1) and p.min() == 257,
    "packed sequences": lambda q, _, p: q.shape[2] == 256 and p[0, 0] == p[0, 128] == 0,
    "a short call beside one up to position 8191": lambda q, *_: q.shape[2] == 65,
    "several sequences or heads in one call": lambda q, *_: q.shape[0] > 1,
}


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("call", REFUSED)
def test_a_call_that_fails_is_said_not_to_be_tried_and_why(call):
    function = refusing(REFUSED[call], ValueError("none of\nthese"))
    found, made = examined(function, "rope")
    assert found.ok
    if call.startswith("several"):
        call = "a batch of 3 sequences"
    assert not any(call in text for text in made["patterns"])
    assert any(f"{call} (raised ValueError: none of)" in text for text in made["untried"]) or any(
        call in text and text.endswith("(raised ValueError: none of)") for text in made["untried"]
    )


@pytest.mark.long
def test_an_object_that_is_told_its_length_by_who_makes_it_may_be_another_below_it():
    rotation = Rotation("rope")

    class Interpolated:
        """Positions are divided by how much longer it is than 4096."""

        def __init__(self, max_position_embeddings=4096):
            self.scale = max_position_embeddings / 8192

        def __call__(self, q, k, position_ids):
            factors = np.exp(1j * position_ids[:, None, :, None] * self.scale * frequencies)
            return rotation.rotated(q, factors), rotation.rotated(k, factors)

    frequencies = 1e4 ** -(np.arange(0, DIM, 2) / DIM)
    found, made = examined(Interpolated, "rope")
    assert found.ok
    assert "its first, short call is wrong too" in made["untried"][-1]


PACKAGE = """
import torch

kept = {}

def rotate(x, positions):
    frequencies = 1 / 10000 ** (torch.arange(0, 16, 2).float() / 16)
    kept.setdefault("frequencies", frequencies.to(x.dtype))
    angles = positions[..., None].float() * kept["frequencies"].float()
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
"""


@pytest.mark.long
@pytest.mark.parametrize("module", ["kept", "kept.core"])
def test_what_another_module_keeps_of_the_first_call_is_found(module, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "__init__.py").write_text("from kept.core import rotate\n")
    (tmp_path / "kept" / "core.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found, _ = examined(f"{module}:rotate", "rope")
    (fault,) = found.subject.other_calls
    assert "vectors of bfloat16 before any of float32" in fault.text
