"""``posenc identify``: which encoding an array is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.errors import InvalidInput
from posenc_cli.files.naming import shown
from posenc_cli.schemes.parameters import as_text

if TYPE_CHECKING:
    from posenc_cli.checks.identify import Candidate, Identification
    from posenc_cli.files.reading import Loaded


def identify(
    console: Console,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="a table, frequencies, slopes or a bias")
    ],
    sines: Annotated[
        str | None, typer.Argument(metavar="[FILE2]", help="the sines, where FILE has cosines")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="as one JSON object")] = False,
) -> int:
    """Say which encoding an array is; status 1 where nothing fits.

    Scheme, base, scaling and its factors, layout, attention factor, positions, number format and
    the arithmetic that made it, with what is left over, runners-up, and the command that writes
    the same array. What the number format does not explain is not identified.

    \b
    Examples:
      posenc identify dump.npy
      posenc identify cos.npy sin.npy --json
      posenc identify table.npy
    """
    from posenc_cli.checks.identify import identified

    paths = [file] if sines is None else [file, sines]
    found = identified([_numbers(path) for path in paths])
    if as_json:
        console.json("identify", _fields(found))
    else:
        console.result(_text(console, found, [shown(path) for path in paths]))
    return 0 if found.found else 1


def _numbers(path: str) -> Loaded:
    """The array in a file, with enough values to be anything."""
    from posenc_cli.files.reading import read_array

    loaded = read_array(path)
    values = loaded.values
    if values.size < 2 or values.ndim == 0:
        raise InvalidInput(f"{shown(path)}: holds one number, which could be anything")
    if values.dtype.kind not in "fc":
        raise InvalidInput(f"{shown(path)}: holds no numbers")
    return loaded


def _fields(found: Identification) -> dict[str, Any]:
    """The result as JSON fields; of what nothing fits the first are null."""
    best = found.found
    fields: dict[str, Any] = {
        "scheme": None,
        "params": None,
        "layout": None,
        "dtype": found.stored,
        "residual": None,
    }
    if best is not None:
        fields |= _candidate_fields(best)
        fields["dtype"] = found.stored
    elif found.candidates:
        fields["residual"] = _number(found.candidates[0].residual)
    return {
        **fields,
        "shape": list(found.shape),
        "compared": found.compared,
        "notes": [*found.notes, *(fields.pop("notes", []))],
        "candidates": [_candidate_fields(each) for each in found.candidates],
    }


def _candidate_fields(each: Candidate) -> dict[str, Any]:
    tables = [table for table in each.tables if table is not None]
    return {
        "scheme": each.scheme,
        "params": each.params,
        "layout": each.layout,
        "residual": _number(each.residual),
        "of_tolerance": _number(each.ratio),
        "equal": each.equal,
        "fits": each.fits,
        "tables": tables,
        "positions": None if each.positions is None else str(each.positions),
        "head": each.head,
        "attention_factor": each.attention_factor,
        "round_to": each.rounded,
        "arithmetic": each.arithmetic,
        "uncertainty": each.uncertainty,
        "models": list(each.models),
        "wrong": list(each.wrong),
        "notes": list(each.notes),
        "commands": list(each.commands),
    }


def _number(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _text(console: Console, found: Identification, names: list[str]) -> str:
    best = found.found
    shape = "×".join(map(str, found.shape))
    what = f"{' and '.join(names)}: {shape}, {found.stored}"
    if best is None:
        lines = [console.paragraph_text(f"not identified: {what}")]
        lines.append(console.paragraph_text(_unknown(found)))
        if found.candidates:
            lines += ["", console.table_text(_HEADER, [_row(each) for each in found.candidates])]
        return "\n".join(lines)
    rows = [[name, text] for name, text in _properties(best, found) if text]
    lines = [
        console.paragraph_text(f"{best.scheme}: {what}"),
        "",
        console.table_text(["property", "value"], rows),
    ]
    notes = [*best.wrong, *found.notes, *best.notes]
    if notes:
        lines.append("")
    lines += [console.paragraph_text(f"note: {note}", hanging=2) for note in notes]
    if best.commands:
        lines += ["", "The same again:", *(f"  {command}" for command in best.commands)]
    others = found.candidates[1:]
    if others:
        lines += ["", "Runners-up:", console.table_text(_HEADER, [_row(each) for each in others])]
    return "\n".join(lines)


_HEADER = ["scheme", "parameters", "residual", "verdict"]


def _unknown(found: Identification) -> str:
    if not found.candidates:
        return (
            "no scheme's rule gives these numbers; a table that was learned, or a rotation that "
            "was applied to vectors, shows none"
        )
    nearest = found.candidates[0]
    return (
        f"nothing fits: the nearest, {nearest.scheme}, leaves {nearest.residual:.2g}, more than "
        "the number format and right code explain; a learned table follows no rule"
    )


def _properties(best: Candidate, found: Identification) -> list[tuple[str, str]]:
    """What is said of the array, in the order of the report."""
    tables = " and ".join(table for table in best.tables if table is not None)
    arithmetic = best.arithmetic
    if arithmetic == "exact":
        arithmetic = "every cell correctly rounded" if best.equal == 1 else "float64 or better"
        if 0 < best.equal < 1 and best.residual > 0:
            arithmetic = f"as good as exact: {best.equal:.1%} of the cells are equal"
    rounded = "" if best.rounded == found.stored else f", holding {best.rounded} values"
    factor = best.attention_factor
    return [
        ("table", tables),
        *((name, _value(best, name)) for name in best.params if name != "layout"),
        ("layout", best.layout or ("not shown by this table" if tables else "")),
        ("attention factor", "" if factor in (None, 1.0) else f"{factor:.9g}"),
        ("positions", "" if best.positions is None else _shortened(str(best.positions))),
        ("head", "" if best.head is None else str(best.head)),
        ("number format", f"{found.stored}{rounded}"),
        ("arithmetic", arithmetic),
        ("residual", f"{best.residual:.3g} ({found.compared} rows compared)"),
        ("equals model", ", ".join(best.models)),
    ]


def _value(best: Candidate, name: str) -> str:
    value = best.params[name]
    if value is None:
        return ""
    text = _shortened(as_text(value))
    error = best.uncertainty.get(name)
    return f"{text} ± {error:.1g}" if error else text


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _row(each: Candidate) -> list[str]:
    params = " ".join(
        f"{name}={_shortened(as_text(value), 24)}"
        for name, value in each.params.items()
        if value is not None and name not in ("dim", "seed")
    )
    residual = f"{each.residual:.2g}" if each.residual < float("inf") else "no number"
    tables = "/".join(table for table in each.tables if table is not None)
    name = f"{each.scheme} ({tables})" if tables else each.scheme
    return [name, params, residual, "fits" if each.fits else "no"]
