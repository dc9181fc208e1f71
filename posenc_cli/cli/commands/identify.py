"""``posenc identify``: which encoding an array holds, or a checkpoint stores."""

from __future__ import annotations

import math
import re
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, Verbose, argument, option
from posenc_cli.errors import (
    MOST_NAMES,
    InvalidInput,
    printable_text,
    quoted_name,
    shell_word,
    sizes_text,
)
from posenc_cli.formulas.parameters import as_text
from posenc_cli.records import items_by_key
from posenc_cli.render.ticks import finite_or_null
from posenc_cli.render.typesetting import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.files.reading import Loaded
    from posenc_cli.identification.search import Candidate, Identification
    from posenc_cli.inference.tensors import PositionalTensor
    from posenc_cli.inference.trial import Census


_SEVERAL = (".safetensors", ".npz")
"""The suffixes of files that may hold many tensors; a file of one tensor is read as an array."""


def checkpoint_status(file: str, console: Console, *, as_json: bool) -> int | None:
    """Report the tensors of a checkpoint that hold positions; status 1 if none does.

    They are found by name and shape in the headers; no value is read. Returns None if ``file``
    holds one array.

    Raises: InvalidInput; Unavailable if it cannot be read.
    """
    from posenc_cli.files.reading import read_headers
    from posenc_cli.files.safetensors import checkpoint_files
    from posenc_cli.inference.tensors import positional_tensors

    files = checkpoint_files(file)
    if files == [file] and PurePath(file).suffix.lower() not in _SEVERAL:
        return None
    headers = {place: read_headers(place) for place in files}
    count = sum(map(len, headers.values()))
    if files == [file] and count < 2:
        return None
    tensors = [tensor for place in files for tensor in positional_tensors(place, headers[place])]
    names = [header.name for place in files for header in headers[place]]
    answer = _tensors_answer(tensors, names, file)
    console.either(
        "identify",
        lambda: {**answer.fields(), "tensors": [tensor.as_dict() for tensor in tensors]},
        lambda: "\n".join([answer.text(console.typesetter), *map(_tensors_text, _groups(tensors))]),
        as_json=as_json,
    )
    return 0 if answer.ok else 1


def _tensors_answer(tensors: Sequence[PositionalTensor], names: Sequence[str], file: str) -> Answer:
    """Return how many tensors hold positions, and what to run next."""
    count = len(names)
    kinds = [tensor.kind for tensor in tensors if tensor.kind is not None]
    if not kinds:
        verdict = f"none of {count} tensors holds positions, by name and shape"
        cause = "models with RoPE or ALiBi store none"
        step = "run posenc explain config.json to see their settings"
        if count <= MOST_NAMES:
            cause = f"the names are {', '.join(map(quoted_name, names))}; {cause}"
            if PurePath(file).suffix.lower() in _SEVERAL:
                place, name = shell_word(f"{file}:{names[0]}"), quoted_name(names[0])
                step = f"run posenc identify {place} to compare the values of {name}"
        return Answer(False, verdict, cause, next=step)
    step = "run a command below to look at one of them"
    if "frequencies" in kinds:
        step = (
            f"run posenc compare config.json {shell_word(file)} to compare the frequencies with a "
            "config"
        )
    verdict = f"{len(kinds)} of {count} tensors hold positions, by name and shape"
    return Answer(True, verdict, next=step)


def _groups(tensors: Sequence[PositionalTensor]) -> list[list[PositionalTensor]]:
    """Group tensors that differ only in their layer numbers."""
    groups = items_by_key(
        ((re.sub(r"\d+", "*", tensor.name), tensor.shape, tensor.dtype, tensor.kind), tensor)
        for tensor in tensors
    )
    return [*groups.values()]


def _tensors_text(group: Sequence[PositionalTensor]) -> str:
    """Return the text of a group of similar tensors: the first one's name, kind and command."""
    first = group[0]
    more = f", and {len(group) - 1} more like it" if len(group) > 1 else ""
    kind = first.kind or "shape does not fit its name"
    lines = [f"{first.name}{more}", f"  {kind}: {first.text}, {first.dtype}"]
    lines += [f"  {first.command}"] if first.command else []
    return "\n".join(map(printable_text, lines))


_RUNNERS_UP = ["scheme", "parameters", "residual", "verdict"]
_NAMED = 4
"""Positions in the verdict, the first ones."""
_AXES_OF_TABLES = 2
"""Positions and dimensions: the only axes of tables that posenc writes."""


def identify(
    console: Console,
    file: Annotated[
        str,
        argument(metavar="FILE", help="a table, frequencies, slopes, a bias, or a checkpoint"),
    ],
    sines: Annotated[
        str | None, argument(metavar="[FILE2]", help="the sines, if FILE holds the cosines")
    ] = None,
    *,
    schemes: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            metavar="NAME",
            help="also try your own scheme: ./file.py:name or package.module:name",
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Identify the encoding stored in an array.

    posenc names the scheme, base, scaling, layout, attention factor, positions, number format and
    arithmetic. It compares every value, states the remaining error, and prints the command that
    writes the same array. If the error exceeds the rounding of the number format, posenc does not
    identify the array, and the status is 1.

    FILE can also be a checkpoint: a folder, an index, or a .safetensors or .npz file with several
    tensors. posenc then lists the tensors whose names and shapes suggest that they hold positions.

    Examples:
      posenc identify dump.npy
      posenc identify cos.npy sin.npy --json
      posenc identify model.safetensors
    """
    if file and sines is None:
        listed = checkpoint_status(file, console, as_json=as_json)
        if listed is not None:
            return listed
    from posenc_cli.identification.search import identify_files

    paths = [file] if sines is None else [file, sines]
    with catalogue.adopting(schemes or ()):
        result = identify_files([_numbers(path) for path in paths])
        console.either(
            "identify",
            lambda: {**_answer(result, paths).fields(), **_fields(result)},
            lambda: _text(console, result, paths, verbose=verbose),
            as_json=as_json,
        )
    return 0 if result.match else 1


def _numbers(path: str) -> Loaded:
    """Return the array in a file; reject fewer than two values."""
    from posenc_cli.files.reading import read_array

    loaded = read_array(path)
    values = loaded.values
    if values.size < 2 or values.ndim == 0:
        raise InvalidInput(f"{quoted_name(path)} holds one number, which is not enough")
    if values.dtype.kind not in "fc":
        raise InvalidInput(f"{quoted_name(path)} holds no numbers")
    return loaded


def _fields(result: Identification) -> dict[str, Any]:
    """Return the result as JSON fields; those of the match are null if nothing fits."""
    nearest = result.candidates[0] if result.candidates else None
    fields: dict[str, Any] = {
        "scheme": None,
        "params": None,
        "layout": None,
        "dtype": result.stored,
        "residual": nearest and finite_or_null(nearest.residual),
    }
    if result.match is not None:
        fields |= _candidate_fields(result.match)
    best = result.match or result.nearest
    if best is not None and best.census is not None and best.commands:
        step = _same_again(best, best.census, result.shape)
        fields["next"] = f"{step} {' && '.join(best.commands)}"
    return fields | {
        "exact": result.match is not None and result.match.exact,
        "rows_differing": nearest and _misfits(nearest.census),
        "largest": nearest and _largest(nearest.census),
        "shape": list(result.shape),
        "compared": nearest.compared if nearest else 0,
        "notes": [*result.notes, *fields.get("notes", ())],
        "candidates": [_candidate_fields(candidate) for candidate in result.candidates],
    }


def _candidate_fields(candidate: Candidate) -> dict[str, Any]:
    return {
        "scheme": candidate.scheme,
        "params": candidate.params,
        "layout": candidate.layout,
        "residual": finite_or_null(candidate.residual),
        "of_tolerance": finite_or_null(candidate.ratio),
        "equal": candidate.equal,
        "exact": candidate.exact,
        "fits": candidate.fits,
        "compared": candidate.compared,
        "all_compared": candidate.census is not None,
        "rows_differing": _misfits(candidate.census),
        "tables": _tables(candidate),
        "positions": None if candidate.positions is None else str(candidate.positions),
        "head": candidate.head,
        "attention_factor": candidate.attention_factor,
        "forms": list(candidate.forms),
        "multiplied_by": candidate.multiplied,
        "round_to": candidate.rounded,
        "arithmetic": candidate.arithmetic,
        "uncertainty": candidate.uncertainty,
        "models": list(candidate.models),
        "fitting_models": list(candidate.fitting_models),
        "notes": list(candidate.notes),
        "commands": list(candidate.commands),
    }


def _tables(candidate: Candidate) -> list[str]:
    return [table for table in candidate.tables if table is not None]


def _misfits(census: Census | None) -> dict[str, Any] | None:
    """Return how many rows do not fit, and which; None if not all were compared."""
    if census is None:
        return None
    return {
        "count": census.misfits,
        "rows": _misfit_rows(census),
        "all_listed": census.misfit_rows.size == census.misfits,
    }


def _misfit_rows(census: Census) -> str:
    """Return the rows that do not fit, in the syntax of --positions, for each head."""
    from posenc_cli.positions import Positions, consecutive_ranges

    rows = items_by_key(
        divmod(row, census.queries) if census.queries else (0, row)
        for row in census.misfit_rows.tolist()
    )
    texts = {head: str(Positions(consecutive_ranges(queries))) for head, queries in rows.items()}
    if census.queries is None:
        return texts.get(0, "")
    return "; ".join(f"head {head}: {text}" for head, text in texts.items())


def _largest(census: Census | None) -> dict[str, Any] | None:
    """Return the largest difference; None if nothing differs or not all values were compared."""
    if census is None or census.largest is None:
        return None
    largest = census.largest
    return {
        "difference": finite_or_null(largest.difference),
        "file": largest.file,
        "at": _index(census, largest.at),
        "value": finite_or_null(largest.value),
        "expected": finite_or_null(largest.expected),
    }


def _index(census: Census, at: tuple[int, ...]) -> list[int]:
    """Return an index into the file; with several heads it is head, query and key."""
    return list(at) if census.queries is None else [*divmod(at[0], census.queries), *at[1:]]


def _answer(result: Identification, paths: list[str]) -> Answer:
    """Return what the array is, how much of it was compared, and the largest error."""
    what = f"{' and '.join(map(quoted_name, paths))} ({sizes_text(result.shape)}, {result.stored})"
    best = result.match or result.nearest
    if best is None:
        step = (
            "compare it with the checkpoint's own table: posenc compare "
            f"{shell_word(paths[0])} TABLE"
        )
        told = f"not identified: {what}"
        return Answer(False, told, _unknown(result), next=None if result.notes else step)
    census = best.census
    assert census is not None  # a match was compared with every value
    if not best.fits:
        share = f"{census.rows - census.misfits} of {census.rows} {_rows_named(best)[1]}"
        told = f"identified in part: {what} is {best.scheme} in {share}"
        return Answer(result.match is not None, told, _damage(best, census, paths))
    models = f", as in {', '.join(best.models)}" if best.models and best.multiplied == 1 else ""
    params = "".join(
        f", {name} {_value_text(best, name)}"
        for name in ("dim", "base", "factor")
        if best.params.get(name) is not None
    )
    number = f"all {_compared(best)} compared, largest error {_number_text(best.residual)}"
    places = best.positions
    if places is not None and places.progression != (0, places.denominator):  # not 0, 1, 2, …
        more = " …" if places.count > _NAMED else ""
        models += f", with rows at positions {', '.join(islice(places.names(), _NAMED))}{more}"
    if best.scheme == "nope":
        models = ": zeros, which hold no positions"
    return Answer(True, f"identified: {what} is {best.scheme}{params}{models}", number=number)


def _text(
    console: Console, result: Identification, paths: list[str], *, verbose: bool = False
) -> str:
    page, best = console.typesetter, result.match or result.nearest
    first = [_answer(result, paths).text(page)]
    shown, details, notes = [*result.candidates], "", ""
    if best is not None:
        census = best.census
        assert census is not None
        if best.commands:
            first += [f"next: {_same_again(best, census, result.shape)}"]
            first += map(console.command_text, best.commands)
        properties = _properties(best, census, result, paths, verbose=verbose)
        details = page.table(["detail", "value"], [[*each] for each in properties if each[1]])
        told = (*result.notes, *best.notes)
        notes = "\n".join(page.paragraph(f"note: {note}", hanging=2) for note in told)
        shown = [each for each in shown[1:] if verbose or each.fits]
    rows = [_row(candidate, best, verbose=verbose) for candidate in shown]
    others = page.table(_RUNNERS_UP, rows) if rows else ""
    if best is not None and rows:
        others = f"Others{'' if verbose else ' that fit'}:\n{others}"
    hidden = len(result.candidates) - 1 - len(shown) if best is not None else 0
    do = "does" if hidden == 1 else "do"
    more = f"{hidden} more {do} not fit: --verbose lists them" if hidden else ""
    return "\n\n".join(filter(None, ["\n".join(first), details, notes, others, more]))


def _unknown(result: Identification) -> str:
    """Return why nothing was identified."""
    from posenc_cli.inference.candidates import known_schemes

    tried = len(known_schemes())
    if not any(math.isfinite(candidate.residual) for candidate in result.candidates):
        return "; ".join(result.notes) or (
            f"no match found among {tried} schemes; posenc check compares the values with the "
            "scheme that you expect"
        )
    finite = [each for each in result.candidates if math.isfinite(each.residual)]
    nearest = min(finite or result.candidates, key=lambda each: each.residual)
    return (
        f"none of {tried} schemes fits: the nearest is {nearest.scheme}, with a largest error of "
        f"{nearest.residual:.2g} in the {_compared(nearest)} compared, more than rounding "
        "explains; a trained or random table has no formula"
    )


def _damage(best: Candidate, census: Census, paths: list[str]) -> str:
    """Return which rows do not fit, and the largest difference."""
    row, rows = _rows_named(best)
    do = f"{row} does" if census.misfits == 1 else f"{rows} do"
    more = " and more" if census.misfit_rows.size < census.misfits else ""
    return (
        f"{census.misfits} {do} not fit: {_shortened(_misfit_rows(census), 200)}{more}; the "
        f"largest difference is {_number_text(best.residual)}, at {_place(census, paths)}"
    )


def _rows_named(best: Candidate) -> tuple[str, str]:
    """Return the name of an entry along the file's first axis, singular and plural."""
    one = {"inv-freq": "frequency", "slopes": "slope"}.get(best.tables[0] or "", "row")
    return one, "frequencies" if one == "frequency" else f"{one}s"


def _place(census: Census, paths: list[str]) -> str:
    """Return the place and value of the largest difference, and the expected value."""
    from posenc_cli.rotary.verdict import distinct_digits

    largest = census.largest
    assert largest is not None
    index = _index(census, largest.at)
    axes = {1: ("value",), 2: ("row", "column"), 3: ("head", "query", "key")}[len(index)]
    place = ", ".join(map("{} {}".format, axes, index))
    file = f" of {quoted_name(paths[largest.file])}" if len(paths) > 1 else ""
    value, expected = distinct_digits(largest.value, largest.expected)
    return f"{place}{file}: {value}, expected {expected}"


def _same_again(best: Candidate, census: Census, shape: tuple[int, ...]) -> str:
    """Return how what the commands write compares with the file."""
    if not best.as_written:
        apart = "" if best.multiplied == 1 else " without the factor,"
        return f"write the same encoding{apart} as posenc stores it:"
    if best.arithmetic is None:
        return "write such a table from weights in a FILE (this table does not show all of them):"
    differing = census.cells - census.equal
    if best.exact or (not differing and not census.padding and not census.hidden):
        shorter = best.layout is not None and len(shape) > _AXES_OF_TABLES and 1 in shape
        return f"write the same array{', without the axes of length 1' if shorter else ''}:"
    if not differing:
        return "write the other values:"
    if 2 * differing <= census.cells:
        return f"write the same array, except {differing} of {census.cells} values:"
    return f"write the same array within {best.residual:.2g}:"


def _properties(
    best: Candidate, census: Census, result: Identification, paths: list[str], *, verbose: bool
) -> list[tuple[str, str]]:
    """Return the properties of the array in the order of the report; empty text if unknown."""
    tables, factor = " and ".join(_tables(best)), best.attention_factor
    layout, stored = best.layout or "", result.stored
    if not layout and catalogue.find(best.scheme).kind == "rotary":
        layout = "not shown by this table"
    if best.rounded != result.stored and census.on_grid:
        stored += f", holding {best.rounded} values"
    equal = "equals model" if best.fits else "other rows equal model"
    return [
        ("table", tables),
        ("stored", "; ".join(best.forms)),
        ("multiplied by", "" if best.multiplied == 1 else f"{best.multiplied:.9g}"),
        *(
            (name, _value_text(best, name))
            for name in _told(best, verbose=verbose)
            if name != "layout"
        ),
        ("layout", layout),
        ("attention factor", "" if factor in (None, 1.0) else f"{factor:.9g}"),
        ("positions", "" if best.positions is None else _shortened(str(best.positions))),
        ("head", "" if best.head is None else str(best.head)),
        ("number format", stored),
        ("arithmetic", _arithmetic_text(best, census)),
        ("residual", f"{_number_text(best.residual)} (all {_compared(best)} compared)"),
        ("largest error", _place(census, paths) if best.fits and census.largest else ""),
        (equal if best.multiplied == 1 else "a multiple of model", ", ".join(best.models)),
        (
            "fits model" if best.arithmetic else "buckets as in",
            ", ".join(best.fitting_models),
        ),
    ]


def _told(candidate: Candidate, *, verbose: bool) -> list[str]:
    """Return the names of the base and of parameters without their default, or of all of them."""
    declared = catalogue.find(candidate.scheme).parameters
    return [
        name
        for name, value in candidate.params.items()
        if value is not None
        and (verbose or name in ("dim", "base", "factor") or value != declared[name].default)
    ]


def _compared(best: Candidate) -> str:
    """Return how many rows were compared."""
    one, several = _rows_named(best)
    return f"{best.compared} {one if best.compared == 1 else several}"


def _arithmetic_text(best: Candidate, census: Census) -> str:
    """Return how the values were computed, if all of them show it."""
    if best.arithmetic is None:
        return "values of a learned table, one for all offsets of a bucket"
    how = "correctly rounded" if best.arithmetic == "exact" else f"as computed in {best.arithmetic}"
    if not census.equal:
        return f"no value is {how}"
    if census.equal < census.cells:
        return f"{census.equal} of {census.cells} values are {how}"
    where = " outside the mask" if census.hidden else " outside the padding"
    return f"every value{where if census.hidden or census.padding else ''} is {how}"


def _number_text(value: float) -> str:
    return f"{value:.3g}" if value < float("inf") else "not a number"


def _value_text(best: Candidate, name: str) -> str:
    error = best.uncertainty.get(name)
    return _shortened(as_text(best.params[name])) + (f" ± {error:.1g}" if error else "")


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _row(candidate: Candidate, best: Candidate | None, *, verbose: bool) -> list[str]:
    """Return a row of the table of runners-up, with positions if they differ from the best's."""
    params = " ".join(
        f"{name}={_shortened(as_text(candidate.params[name]), 24)}"
        for name in _told(candidate, verbose=verbose)
        if name not in ("dim", "seed")
    )
    positions = candidate.positions
    if best is not None and positions is not None and str(positions) != str(best.positions):
        params += f" positions={_shortened(str(positions), 24)}"
    tables = f" ({'/'.join(_tables(candidate))})" if _tables(candidate) else ""
    residual = _number_text(candidate.residual)
    return [f"{candidate.scheme}{tables}", params, residual, _verdict(candidate)]


def _verdict(candidate: Candidate) -> str:
    census = candidate.census
    if candidate.fits:
        return "fits loosely" if candidate.surpassed else "fits"
    if census is None:
        return f"fits {candidate.compared} rows" if candidate.fits_sample else "no"
    return f"fits {census.rows - census.misfits} rows" if candidate.fits_rows else "no"
