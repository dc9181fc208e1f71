"""Which tensors of a checkpoint hold positions, by name and shape.

What a table of a scheme is called stands with the scheme, in its `WeightsShape`; what else
checkpoints hold of positions stands here.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import as_text
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.files.source import ArrayHeader
    from posenc_cli.formulas.declare import Scheme

_BIASES_SHOWN = 256
"""Positions that a bias without an end is shown for: twice T5's largest distance."""

_WRITTEN = "encoding"  # what posenc generate calls the one array of a file
_IDENTIFIED = ("absolute", "rotary")  # the kinds whose arrays posenc identify takes as they are


class PositionalTensor(Record):
    """A tensor that holds positions, or by its name should.

    ``kind`` is what it is to attention, or None where its shape contradicts its name; ``text`` says
    what it holds. ``command`` is what to look at it with, ready to paste.
    """

    file: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str | None
    text: str
    command: str | None = None


class _Buffer(Record):
    """What code keeps of positions beside what it trains, by the pattern of its name."""

    pattern: str
    kind: str
    text: str
    axes: Sequence[int]
    command: str


def _has_values(shape: tuple[int, ...], axes: Sequence[int]) -> bool:
    return len(shape) in axes and min(shape) > 0


_VECTOR, _MATRICES, _ANY = range(1, 2), range(2, 33), range(1, 33)
"""Axes that an array may have: NumPy's have up to 32 in all versions."""

_BUFFERS = (
    _Buffer(r"(\w+_)?inv_freq", "frequencies", "one frequency per pair", _VECTOR, "identify"),
    _Buffer(
        r"rope_(freqs|factors_(long|short))(\.weight)?",
        "factors",
        "divisors of the frequencies, one per pair",
        _VECTOR,
        "heatmap --in",
    ),
    _Buffer(
        r"(cos|sin)_(cached|cache)|freqs_cis",
        "rotary",
        "cosines or sines of RoPE",
        _MATRICES,
        "identify",
    ),
    _Buffer(
        r"pe|pos(itional)?_encodings?|sin(usoid(al)?)?_pos(itional)?_embed(ding)?s?(\.weight)?",
        "absolute",
        "one row per position",
        _MATRICES,
        "identify",
    ),
    _Buffer(
        r"rel_pos_[hw]|(distance|rel(ative)?(_positions?|_pos)?)_embed(ding)?s?(_[kv])?(\.weight)?",
        "relative",
        "one row per offset",
        _MATRICES,
        "heatmap --in",
    ),
)


def positional_tensors(file: str, headers: Sequence[ArrayHeader]) -> list[PositionalTensor]:
    """The tensors of a file that hold positions, in its order; numbers of no array are read.

    >>> from posenc_cli.files.source import ArrayHeader
    >>> header = ArrayHeader("h.0.attn.rotary_emb.inv_freq", (64,), "float32")
    >>> [(tensor.kind, tensor.command) for tensor in positional_tensors("m.safetensors", [header])]
    [('frequencies', 'posenc identify m.safetensors:h.0.attn.rotary_emb.inv_freq')]
    """
    read = (
        _of_posenc(file, header) or _of_scheme(file, header) or _of_buffer(file, header)
        for header in headers
    )
    return [tensor for tensor in read if tensor is not None]


def _ends_with(pattern: str, name: str) -> bool:
    return re.search(rf"(?:^|\.|/)(?:{pattern})$", name) is not None


def _tensor(
    file: str, header: ArrayHeader, kind: str | None, text: str, words: Sequence[str] = ()
) -> PositionalTensor:
    command = shlex.join(["posenc", *words]) if words else None
    return PositionalTensor(file, header.name, header.shape, header.dtype, kind, text, command)


def _of_posenc(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """What ``posenc generate`` wrote, by the scheme that its metadata name."""
    scheme = catalogue.BUILT_IN.get(header.scheme)
    if header.name != _WRITTEN or scheme is None or not _has_values(header.shape, _ANY):
        return None
    words = "identify" if scheme.kind in _IDENTIFIED else "heatmap --in"
    text = f"{scheme.name}, {_by(header.shape)}, written by posenc"
    return _tensor(file, header, scheme.kind, text, [*words.split(), f"{file}:{header.name}"])


def _of_scheme(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """A tensor that is a scheme's table."""
    for scheme in catalogue.BUILT_IN.values():
        shape = scheme.weights
        if (
            shape is None
            or not shape.tensor_names
            or not _ends_with(shape.tensor_names, header.name)
        ):
            continue
        if not header.dtype.startswith(("float", "bfloat")):
            return _tensor(file, header, None, "not a table of real numbers")
        if scheme.kind == "absolute":
            return _absolute(file, header)
        return _scores(file, header, scheme)
    return None


def _absolute(file: str, header: ArrayHeader) -> PositionalTensor:
    """A table with a row a position."""
    shape = header.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    source = f"{file}:{header.name}"
    if len(shape) == 3 and min(shape) > 1:
        text = f"one vector per place of a grid, {_by(header.shape)}"
        return _tensor(file, header, "absolute", text, ["heatmap", "--in", source])
    if len(shape) != 2 or min(shape) < 2:
        return _tensor(file, header, None, f"not a table of positions: its shape is {_by(shape)}")
    rows, columns = shape
    text = f"{rows} positions × {columns}"
    return _tensor(file, header, "absolute", text, ["dot-similarity", "--in", source])


def _scores(file: str, header: ArrayHeader, scheme: Scheme) -> PositionalTensor:
    """A table of learned scores, or the first layer of a network of them, as its scheme has it."""
    shape = scheme.weights
    assert shape is not None
    source = f"{file}:{header.name}"
    unfit = f"not a table of {scheme.name}, {shape.text}: {_by(header.shape)}"
    if len(header.shape) != 2:
        return _tensor(file, header, None, unfit)
    if shape.tensors is not None:
        weights = source.removesuffix(f".{shape.tensors[0]}")
        words = ["heatmap", "-s", scheme.name, "--set", f"weights={weights}"]
        text = f"{_by(header.shape)}, the first layer of a network: {shape.text}"
        return _tensor(file, header, scheme.kind, text, words)
    rows, columns = header.shape
    if min(rows, columns) < 1:
        return _tensor(file, header, None, unfit)
    settled, given = shape.rows_to_parameter(rows), shape.settled_by(header.name, rows)
    if settled is None:
        text = f"table of {scheme.name}, but {rows} rows do not determine its {shape.rows}"
        return _tensor(file, header, scheme.kind, text, ["heatmap", "--in", source])
    try:
        bound = scheme.bind({**given, shape.rows: settled, shape.columns: columns})
    except InvalidInput:
        return _tensor(file, header, None, unfit)
    end = bound.content.capacity
    length = _BIASES_SHOWN if end is None else end.positions
    words = ["dot-similarity", "-s", scheme.name, "--len", str(length)]
    for name, value in {"weights": source, **given}.items():
        words += ["--set", f"{name}={value}"]
    told = {name: bound.params[name] for name in (shape.rows, shape.columns, *given)}
    parameters = " ".join(
        f"{name}={as_text(value, separator=scheme.parameters[name].rules.separator)}"
        for name, value in told.items()
    )
    return _tensor(file, header, scheme.kind, f"{scheme.name} {parameters}", words)


def _of_buffer(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """A tensor that code keeps beside what it trains, or whose table is no scheme's."""
    for buffer in _BUFFERS:
        if not _ends_with(buffer.pattern, header.name):
            continue
        if not _has_values(header.shape, buffer.axes) or header.dtype.startswith(
            ("int", "uint", "bool")
        ):
            text = f"not {buffer.text}: {_by(header.shape)}"
            return _tensor(file, header, None, text)
        words = [*buffer.command.split(), f"{file}:{header.name}"]
        return _tensor(file, header, buffer.kind, f"{buffer.text}, {_by(header.shape)}", words)
    return None


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"
