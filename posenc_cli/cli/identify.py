"""``posenc identify``: which encoding an array is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.schemes.parameters import as_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from posenc_cli.checks.identify import Candidate, Identification
    from posenc_cli.checks.identify_census import Census
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
    as_json: Json = False,
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
    from posenc_cli.checks.identify import identify_files

    paths = [file] if sines is None else [file, sines]
    found = identify_files([_numbers(path) for path in paths])
    if as_json:
        console.json("identify", _fields(found))
    else:
        console.result(_text(console, found, [quoted_name(path) for path in paths]))
    return 0 if found.match else 1


def _numbers(path: str) -> Loaded:
    """The array in a file, with enough values to be anything."""
    from posenc_cli.files.reading import read_array

    loaded = read_array(path)
    values = loaded.values
    if values.size < 2 or values.ndim == 0:
        raise InvalidInput(f"{quoted_name(path)}: holds one number, which could be anything")
    if values.dtype.kind not in "fc":
        raise InvalidInput(f"{quoted_name(path)}: holds no numbers")
    return loaded


def _fields(found: Identification) -> dict[str, Any]:
    """The result as JSON fields; of what nothing fits the first are null."""
    best = found.match
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
    nearest = best or (found.candidates[0] if found.candidates else None)
    return {
        **fields,
        "exact": best is not None and best.exact,
        "rows_differing": None if nearest is None else _misfits(nearest),
        "largest": None if nearest is None else _largest(nearest),
        "shape": list(found.shape),
        "compared": 0 if nearest is None else nearest.compared,
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
        "exact": each.exact,
        "fits": each.fits,
        "compared": each.compared,
        "all_compared": each.census is not None,
        "rows_differing": _misfits(each),
        "tables": tables,
        "positions": None if each.positions is None else str(each.positions),
        "head": each.head,
        "attention_factor": each.attention_factor,
        "round_to": each.rounded,
        "arithmetic": each.arithmetic,
        "uncertainty": each.uncertainty,
        "models": list(each.models),
        "fitting_models": list(each.fitting_models),
        "wrong": list(each.wrong),
        "notes": list(each.notes),
        "commands": list(each.commands),
    }


def _misfits(each: Candidate) -> dict[str, Any] | None:
    """How many rows do not fit, and which; None where not all were compared."""
    if each.census is None:
        return None
    return {
        "count": each.census.misfits,
        "rows": _rows(each.census),
        "all_listed": each.census.misfit_rows.size == each.census.misfits,
    }


def _largest(each: Candidate) -> dict[str, Any] | None:
    """The largest difference of all cells; None where nothing differs, or not all were compared."""
    largest = each.census and each.census.largest
    if not largest:
        return None
    return {
        "difference": _number(largest.difference),
        "file": largest.file,
        "at": _index(each.census, largest.at),
        "value": _number(largest.value),
        "expected": _number(largest.expected),
    }


def _number(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _rows(census: Census) -> str:
    """The rows that do not fit; of several heads the queries of each."""
    rows = census.misfit_rows
    if census.queries is None:
        return _rows_text(rows)
    heads = rows // census.queries
    return "; ".join(
        f"head {head}: {_rows_text(rows[heads == head] % census.queries)}"
        for head in dict.fromkeys(heads.tolist())
    )


def _index(census: Census | None, at: tuple[int, ...]) -> list[int]:
    """An index into the file: of several heads head, query and key."""
    if census is None or census.queries is None:
        return list(at)
    return [*divmod(at[0], census.queries), *at[1:]]


def _rows_text(rows: NDArray[np.int64]) -> str:
    """Row numbers in order, as --positions writes them."""
    from posenc_cli.positions import Positions, consecutive_ranges

    return str(Positions(consecutive_ranges(rows.tolist())))


def _text(console: Console, found: Identification, names: list[str]) -> str:
    best = found.match or found.nearest
    shape = "×".join(map(str, found.shape))
    what = f"{' and '.join(names)}: {shape}, {found.stored}"
    if best is None:
        lines = [console.paragraph_text(f"not identified: {what}")]
        lines.append(console.paragraph_text(_unknown(found)))
        if found.candidates:
            lines += ["", console.table_text(_HEADER, [_row(each) for each in found.candidates])]
        return "\n".join(lines)
    if best.fits:
        lines = [console.paragraph_text(f"{best.scheme}: {what}")]
    else:
        census = best.census
        assert census is not None
        share = f"{census.rows - census.misfits} of {census.rows} {_rows_named(best)[1]}"
        lines = [
            console.paragraph_text(f"{best.scheme} in {share}: {what}"),
            console.paragraph_text(_damage(best, names)),
        ]
    rows = [[name, text] for name, text in _properties(best, found, names) if text]
    lines += ["", console.table_text(["property", "value"], rows)]
    notes = [*best.wrong, *found.notes, *best.notes]
    if notes:
        lines.append("")
    lines += [console.paragraph_text(f"note: {note}", hanging=2) for note in notes]
    if best.commands:
        lines += ["", _same_again(best), *(f"  {command}" for command in best.commands)]
    others = found.candidates[1:]
    if others:
        lines += ["", "Runners-up:", console.table_text(_HEADER, [_row(each) for each in others])]
    return "\n".join(lines)


_HEADER = ["scheme", "parameters", "residual", "verdict"]


def _unknown(found: Identification) -> str:
    if not found.candidates and found.notes:
        return "; ".join(found.notes)
    if not found.candidates:
        return (
            "posenc knows no scheme that gives these numbers; a table that was learned, or a "
            "rotation that was applied to vectors, shows none"
        )
    nearest = found.candidates[0]
    if nearest.census is None and nearest.fits_sample:
        return (
            f"{nearest.scheme} fits the {nearest.compared} rows that were looked at; the others "
            "are not evenly spaced, and were not compared"
        )
    return (
        f"nothing fits: the nearest, {nearest.scheme}, is off by {nearest.residual:.2g} within the "
        f"{_compared(nearest)} compared, more than the number format and right code explain; "
        "a learned table follows no rule"
    )


def _damage(best: Candidate, names: list[str]) -> str:
    """Which rows do not fit, and the largest difference."""
    census = best.census
    assert census is not None
    one = census.misfits == 1
    listed = _shortened(_rows(census), 200)
    if census.misfit_rows.size < census.misfits:
        listed += " and more"
    row, rows = _rows_named(best)
    text = f"{census.misfits} {f'{row} does' if one else f'{rows} do'} not fit: {listed}"
    return (
        f"{text}; the largest difference is {_number_text(best.residual)}, at {_place(best, names)}"
    )


def _rows_named(best: Candidate) -> tuple[str, str]:
    """What the file holds in each place of its first axis: one, and several."""
    one = {"inv-freq": "frequency", "slopes": "slope"}.get(best.tables[0] or "", "row")
    return one, "frequencies" if one == "frequency" else f"{one}s"


def _place(best: Candidate, names: list[str]) -> str:
    """The cell of the largest difference."""
    largest = best.census and best.census.largest
    assert largest
    names_of = {1: ("value",), 2: ("row", "column"), 3: ("head", "query", "key")}
    index = _index(best.census, largest.at)
    place = ", ".join(map("{} {}".format, names_of[len(index)], index))
    if len(names) > 1:
        place += f" of {names[largest.file]}"
    from posenc_cli.checks.verdict import distinct_digits

    value, expected = distinct_digits(largest.value, largest.expected)
    return f"{place}: {value} where {expected} belongs"


def _same_again(best: Candidate) -> str:
    """What the commands write, beside the file."""
    census = best.census
    assert census is not None
    if best.arithmetic is None:
        return "Such a table, of weights in a FILE of yours (they cannot all be read off this one):"
    differing = census.cells - census.equal
    if best.exact or (not differing and not census.padding and not census.hidden):
        return "The same again:"
    if not differing:
        return "The other cells again:"
    if 2 * differing <= census.cells:
        return f"The same but for {differing} of {census.cells} cells:"
    return f"The same within {best.residual:.2g}:" if best.fits else "The other rows, nearly:"


def _properties(best: Candidate, found: Identification, names: list[str]) -> list[tuple[str, str]]:
    """What is said of the array, in the order of the report."""
    tables = " and ".join(table for table in best.tables if table is not None)
    census = best.census
    assert census is not None
    rounded = ""
    if best.rounded != found.stored and census.on_grid:
        rounded = f", holding {best.rounded} values"
    factor, fitting = best.attention_factor, ", ".join(best.fitting_models)
    return [
        ("table", tables),
        *((name, _value(best, name)) for name in best.params if name != "layout"),
        ("layout", best.layout or ("not shown by this table" if tables else "")),
        ("attention factor", "" if factor in (None, 1.0) else f"{factor:.9g}"),
        ("positions", "" if best.positions is None else _shortened(str(best.positions))),
        ("head", "" if best.head is None else str(best.head)),
        ("number format", f"{found.stored}{rounded}"),
        ("arithmetic", _arithmetic(best)),
        ("residual", f"{_number_text(best.residual)} (all {_compared(best)} compared)"),
        ("farthest cell", _place(best, names) if best.fits and census.largest else ""),
        ("equals model" if best.fits else "other rows equal model", ", ".join(best.models)),
        ("buckets as in" if best.arithmetic is None else "fits model", fitting),
    ]


def _compared(best: Candidate) -> str:
    one, several = _rows_named(best)
    return f"{best.compared} {one if best.compared == 1 else several}"


def _arithmetic(best: Candidate) -> str:
    """How the cells were computed, as far as all of them say."""
    census = best.census
    assert census is not None
    if best.arithmetic is None:
        return "values of a learned table, one for all offsets of a bucket"
    cells, equal = census.cells, census.equal
    how = "correctly rounded" if best.arithmetic == "exact" else f"as {best.arithmetic} gives them"
    if equal == cells:
        if census.hidden:
            return f"every cell that is not masked {how}"
        return f"every cell but those of padding {how}" if census.padding else f"every cell {how}"
    if not equal:
        return f"no cell {how}"
    return f"{equal} of {cells} cells {how}"


def _number_text(value: float) -> str:
    return f"{value:.3g}" if value < float("inf") else "no number"


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
    residual = _number_text(each.residual)
    tables = "/".join(table for table in each.tables if table is not None)
    name = f"{each.scheme} ({tables})" if tables else each.scheme
    return [name, params, residual, _verdict(each)]


def _verdict(each: Candidate) -> str:
    if each.fits:
        return "fits loosely" if each.outdone else "fits"
    if each.census is None:
        return f"fits {each.compared} rows" if each.fits_sample else "no"
    return f"fits {each.census.rows - each.census.misfits} rows" if each.fits_rows else "no"
