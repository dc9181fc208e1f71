"""Find the tensors of a checkpoint that hold positions, by name and shape.

The names of a scheme's table are in its `WeightsShape`. This module lists the other tensors of
checkpoints, such as buffers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput, shell_word
from posenc_cli.formulas.parameters import as_text
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.files.source import ArrayHeader
    from posenc_cli.formulas.declare import Scheme

_BIASES_SHOWN = 256
"""Number of positions to show of a bias without a limit: twice T5's largest distance."""

_WRITTEN_NAME = "encoding"  # the name that posenc generate gives the only array of a file
_IDENTIFIED = ("absolute", "rotary")  # the kinds that posenc identify reads directly


class PositionalTensor(Record):
    """A tensor that holds positions, or should by its name.

    ``kind`` is its role in attention, None if its shape contradicts its name. ``text`` describes
    its content. ``command`` is a command that shows it, ready to paste.
    """

    file: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str | None
    text: str
    command: str | None = None


class _Buffer(Record):
    """A kind of position tensor that code keeps beside its weights, by the pattern of its name."""

    pattern: str
    kind: str
    text: str
    axes: Sequence[int]
    command: str


def _has_values(shape: tuple[int, ...], axes: Sequence[int]) -> bool:
    return len(shape) in axes and min(shape) > 0


_VECTOR, _MATRICES, _ANY = range(1, 2), range(2, 33), range(1, 33)
"""Numbers of axes that an array may have: 32 is NumPy's limit in all versions."""

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
    """Return the tensors of a file that hold positions, in its order; no values are read.

    >>> from posenc_cli.files.source import ArrayHeader
    >>> header = ArrayHeader("h.0.attn.rotary_emb.inv_freq", (64,), "float32")
    >>> [(tensor.kind, tensor.command) for tensor in positional_tensors("m.safetensors", [header])]
    [('frequencies', 'posenc identify m.safetensors:h.0.attn.rotary_emb.inv_freq')]
    """
    read = (
        _written_by_posenc(file, header) or _table_of_scheme(file, header) or _buffer(file, header)
        for header in headers
    )
    return [tensor for tensor in read if tensor is not None]


def _ends_with(pattern: str, name: str) -> bool:
    return re.search(rf"(?:^|\.|/)(?:{pattern})$", name) is not None


def _tensor(
    file: str, header: ArrayHeader, kind: str | None, text: str, words: Sequence[str] = ()
) -> PositionalTensor:
    command = " ".join(["posenc", *map(shell_word, words)]) if words else None
    return PositionalTensor(file, header.name, header.shape, header.dtype, kind, text, command)


def _written_by_posenc(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """Describe a tensor that ``posenc generate`` wrote, by the scheme in its metadata."""
    scheme = catalogue.BUILT_IN.get(header.scheme)
    if header.name != _WRITTEN_NAME or scheme is None or not _has_values(header.shape, _ANY):
        return None
    words = "identify" if scheme.kind in _IDENTIFIED else "heatmap --in"
    text = f"{scheme.name}, {_shape_text(header.shape)}, written by posenc"
    return _tensor(file, header, scheme.kind, text, [*words.split(), f"{file}:{header.name}"])


def _table_of_scheme(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """Describe a tensor that has the name of a scheme's table; None for other names."""
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
            return _absolute_table(file, header)
        return _score_table(file, header, scheme)
    return None


def _absolute_table(file: str, header: ArrayHeader) -> PositionalTensor:
    """Describe a table with one row per position."""
    shape = header.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    source = f"{file}:{header.name}"
    if len(shape) == 3 and min(shape) > 1:
        text = f"one vector per place of a grid, {_shape_text(header.shape)}"
        return _tensor(file, header, "absolute", text, ["heatmap", "--in", source])
    if len(shape) != 2 or min(shape) < 2:
        return _tensor(
            file, header, None, f"not a table of positions: its shape is {_shape_text(shape)}"
        )
    rows, columns = shape
    text = f"{rows} positions × {columns}"
    return _tensor(file, header, "absolute", text, ["dot-similarity", "--in", source])


def _score_table(file: str, header: ArrayHeader, scheme: Scheme) -> PositionalTensor:
    """Describe a table of learned scores, or the first layer of a scheme's network."""
    shape = scheme.weights
    assert shape is not None
    source = f"{file}:{header.name}"
    unfit = f"not a table of {scheme.name}, {shape.text}: {_shape_text(header.shape)}"
    if len(header.shape) != 2:
        return _tensor(file, header, None, unfit)
    if shape.tensors is not None:
        weights = source.removesuffix(f".{shape.tensors[0]}")
        words = ["heatmap", "-s", scheme.name, "--set", f"weights={weights}"]
        text = f"{_shape_text(header.shape)}, the first layer of a network: {shape.text}"
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
    shown = {name: bound.params[name] for name in (shape.rows, shape.columns, *given)}
    parameters = " ".join(
        f"{name}={as_text(value, separator=scheme.parameters[name].rules.separator)}"
        for name, value in shown.items()
    )
    return _tensor(file, header, scheme.kind, f"{scheme.name} {parameters}", words)


def _buffer(file: str, header: ArrayHeader) -> PositionalTensor | None:
    """Describe a buffer, or a table that belongs to no scheme; None for other names."""
    for buffer in _BUFFERS:
        if not _ends_with(buffer.pattern, header.name):
            continue
        if not _has_values(header.shape, buffer.axes) or header.dtype.startswith(
            ("int", "uint", "bool")
        ):
            text = f"not {buffer.text}: {_shape_text(header.shape)}"
            return _tensor(file, header, None, text)
        words = [*buffer.command.split(), f"{file}:{header.name}"]
        return _tensor(
            file, header, buffer.kind, f"{buffer.text}, {_shape_text(header.shape)}", words
        )
    return None


def _shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"
