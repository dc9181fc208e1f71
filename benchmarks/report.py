"""Format results as text for a terminal, as strict JSON, and as Markdown for the pages.

Results are plain JSON values, so a saved result gives the same section again.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.accuracy import POSITIONS, Judged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.measuring import Measurement, Section

Results = dict[str, Any]

WIDTH = 100
NO_VALUE = "–"
SHARED = (1, 2, 3, 6)
"""Columns of a table of measurements that are left out if all rows have one value."""

LABELS = {1048575: "2^20−1", 2**24 + 1: "2^24+1", 2**31: "2^31", 2**53 - 1: "2^53−1"}
"""The text of positions near powers of two."""


def as_plain(section: Section | Judged) -> Results:
    """Return a section as plain values."""
    if isinstance(section, Judged):
        rows = [asdict(row) for row in section.rows]
        return {"title": section.title, "how": section.how, "accuracy": rows}
    measurements = [_measurement(each) for each in section.measurements]
    return {"title": section.title, "how": section.how, "measurements": measurements}


def _measurement(each: Measurement) -> Results:
    goal = None if each.goal is None else str(each.goal)
    return {**asdict(each), "goal": goal, "met": each.met}


def as_json(results: Results) -> str:
    """Return strict JSON, without NaN and infinity.

    Raises: ValueError where a value is either.
    """
    return json.dumps(results, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def as_text(section: Results) -> str:
    """Return a section as tables for a terminal, at most 100 columns wide."""
    title = section["title"]
    lines = [title, "=" * len(title), *textwrap.wrap(section["how"].replace("`", ""), WIDTH), ""]
    body = _accuracy_text(section) if "accuracy" in section else _measurements_text(section)
    return "\n".join([*lines, *body, ""])


def _measurements_text(section: Results) -> Iterator[str]:
    header = ["what", "against", "dtype", "threads", "median", "min – max", "runs", "goal", ""]
    rows = [_text_row(each) for each in section["measurements"]]
    different = [{row[at] for row in rows} - {""} for at in range(len(header))]
    # What all rows share is said once; a table is at most so wide.
    same = [f"{header[at]}: {''.join(different[at])}" for at in SHARED if len(different[at]) == 1]
    if same:
        yield "; ".join(same)
        yield ""
    used = [at for at, values in enumerate(different) if len(values) > (1 if at in SHARED else 0)]
    yield from _aligned([[row[at] for at in used] for row in (header, *rows)], named=1)


def _text_row(each: Results) -> list[str]:
    spread = each["spread"]
    known = [
        _cut(each["name"], 40),
        each["against"].removeprefix("python -c ").strip("'"),
        each["dtype"] or "",
        str(each["threads"] or ""),
    ]
    if spread is None:
        return [*known, each["note"], "", "", "", ""]
    ends = f"{_short(spread['min'])} – {_short(spread['max'])}"
    median = _with_unit(spread["median"], each["unit"])
    verdict = {None: "", True: "met", False: "missed"}[each["met"]]
    return [*known, median, ends, str(spread["repetitions"]), each["goal"] or "", verdict]


def _accuracy_text(section: Results) -> Iterator[str]:
    rows = section["accuracy"]
    labels = [_label(position) for position in POSITIONS]
    yield "Largest absolute error near each position:"
    yield ""
    yield from _aligned([["", "", *labels], *(_errors(row, "max_error") for row in rows)], named=2)
    yield ""
    yield "Largest error in units in the last place, and share of wrong values:"
    yield ""
    body = [[*_errors(row, "max_ulp"), _wrong(row)] for row in rows]
    yield from _aligned([["", "", *labels, "wrong"], *body], named=2)
    for row in rows:
        if row["found"] and row["note"]:
            yield f"{row['name']}: {row['note']}"


def _errors(row: Results, field: str) -> list[str]:
    name = [_cut(row["name"].removeprefix("textbook ").replace(" LlamaRotaryEmbedding", ""), 26)]
    if not row["found"]:
        return [*name, row["dtype"], row["note"], *[""] * (len(POSITIONS) - 1)]
    values = [_power(each[field]) for each in row["found"]]
    return [*name, row["dtype"], *values, *[NO_VALUE] * (len(POSITIONS) - len(values))]


def _wrong(row: Results) -> str:
    cells = sum(each["cells"] for each in row["found"])
    wrong = sum(each["wrong"] for each in row["found"])
    return f"{100 * wrong / cells:.3g}%" if cells else ""


def _aligned(rows: Sequence[Sequence[str]], *, named: int) -> Iterator[str]:
    """Yield rows as columns; after the ``named`` ones, a note may fill empty cells."""
    columns = range(len(rows[0]))
    widths = [
        max(len(row[at]) for row in rows if at < named or at == columns[-1] or row[at + 1])
        for at in columns
    ]
    for row in rows:
        line = ""
        for at in columns:
            line = line.ljust(sum(widths[:at]) + 2 * at) + row[at]
        yield line.rstrip()


def _label(position: int) -> str:
    return LABELS.get(position, str(position))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _short(value: float) -> str:
    size = abs(value)
    if size >= 9999:
        return _power(value)
    return f"{value:.{2 if size < 10 else 1 if size < 100 else 0}f}"


def _with_unit(value: float, unit: str) -> str:
    return f"{_short(value)}{'×' if unit == '×' else f' {unit}'}"


def _power(value: float) -> str:
    """Return a number in few characters.

    >>> _power(2.98e-08), _power(0.5), _power(12345678.0), _power(0)
    ('3.0e-8', '0.50', '1.2e7', '0')
    """
    if value == 0:
        return "0"
    if 0.01 <= abs(value) < 1000:
        return _short(value)
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def performance_markdown(results: Results) -> str:
    """Return the page on performance, in Markdown, from a saved result.

    Sections that the result lacks are left out.
    """
    sections = results["sections"]
    parts = [_machine(results["machine"])]
    for name, section in sections.items():
        tables = {"speed": _by_format, "peers": _by_backend}
        table = _accuracy_table if "accuracy" in section else tables.get(name, _plain_table)
        how = f"{section['how']} Measured on {section['day']}."
        parts.append(f"**{section['title']}.** {how}\n\n{table(section)}")
    return "\n\n".join(parts)


def truths(results: Results) -> tuple[list[str], ...]:
    """Return the README's rows on errors and speed: posenc and the usual code."""
    sections, near = results["sections"], 131071
    errors = {
        row["name"]: next(each["max_error"] for each in row["found"] if each["position"] == near)
        for row in sections["accuracy"]["accuracy"]
        if row["dtype"] == "float32" and row["found"]
    }
    times = {
        each["name"]: each["spread"]["median"]
        for each in sections["peers"]["measurements"]
        if (each["against"], each["threads"]) == ("posenc fast", 1) and each["spread"]
    }
    rows = results["sizes"]["rows"]
    size = f"a float32 table of {rows} × 128"
    return (
        [
            f"largest error of a float32 table near position {near}",
            f"{_power(errors['posenc numpy'])}, only the rounding to float32",
            ", ".join(f"{short} {_power(errors[name])}" for name, short in _USED.items()),
        ],
        *(
            [
                f"time for {size} {memory} (one thread; posenc = 1×)",
                "1×",
                ", ".join(f"{short} {_short(times[name])}×" for name, short in used.items()),
            ]
            for memory, used in (("in an existing array", _REUSING), ("in a new array", _USED))
        ),
    )


_REUSING = {
    "textbook torch, reusing memory": "textbook torch",
    "textbook NumPy float32, reusing memory": "textbook NumPy",
}
_USED = {
    "transformers LlamaRotaryEmbedding": "transformers",
    "rotary-embedding-torch": "rotary-embedding-torch",
    "textbook NumPy float32": "textbook NumPy",
}


def _machine(machine: Results) -> str:
    libraries = [f"{name} {version}" for name, version in machine["libraries"].items() if version]
    return (
        "Most entries are ratios of two measurements, which `make bench` runs alternately. An "
        "entry shows the median, the minimum, and the goal if there is one. The numbers are from "
        f"an {machine['cpu']} with {machine['cores']} cores: {machine['system']}, "
        f"Python {machine['python']}, {', '.join(libraries)}."
    )


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _median(each: Results | None) -> str:
    """Return a median with the minimum and its goal, or a dash.

    >>> spread = {"median": 4.9, "min": 4.1}
    >>> _median({"spread": spread, "unit": "×", "goal": "≤ 5", "met": True})
    '4.90× (min 4.10; goal ≤ 5)'
    """
    if each is None or each["spread"] is None:
        return NO_VALUE
    missed = ", missed" if each["met"] is False else ""
    goal = f"; goal {each['goal']}{missed}" if each["goal"] else ""
    least = _short(each["spread"]["min"])
    return f"{_with_unit(each['spread']['median'], each['unit'])} (min {least}{goal})"


def _by_format(section: Results) -> str:
    """Return multiples of the floor: rows of contenders, columns of formats and threads."""
    found = {(m["name"], m["dtype"], m["threads"]): m for m in section["measurements"]}
    columns = dict.fromkeys((dtype, threads) for _, dtype, threads in found)
    shown = [(dtype, threads) for dtype, threads in columns if dtype == "float32" or threads == 1]
    header = ["", *(f"{d}, {t} thread{'s' if t > 1 else ''}" for d, t in shown)]
    rows = [
        [name, *(_median(found.get((name, *column))) for column in shown)]
        for name in dict.fromkeys(name for name, _, _ in found)
    ]
    return _markdown(header, _with_values(rows))


def _by_backend(section: Results) -> str:
    """Return speed-ups: rows of peers and threads, columns of backends."""
    found = {(m["name"], m["threads"], m["against"]): m for m in section["measurements"]}
    backends = dict.fromkeys(against for _, _, against in found)
    rows = [
        [name, str(threads), *(_median(found.get((name, threads, each))) for each in backends)]
        for name, threads in dict.fromkeys((name, threads) for name, threads, _ in found)
    ]
    return _markdown(["library", "threads", *backends], _with_values(rows, names=2))


def _plain_table(section: Results) -> str:
    found = [m for m in section["measurements"] if m["spread"] is not None]
    first = {(m["name"], m["threads"]): m for m in reversed(found)}
    rows = [
        [m["name"], m["against"], str(m["threads"] or ""), _median(m)]
        for m in found
        if m["goal"] or m is first[m["name"], m["threads"]]  # one base is enough without a goal
    ]
    threaded = any(row[2] for row in rows)
    used = (0, 1, 2, 3) if threaded else (0, 1, 3)
    header = ["", "compared with", "threads", "median"]
    return _markdown([header[at] for at in used], [[row[at] for at in used] for row in rows])


def _accuracy_table(section: Results) -> str:
    header = ["largest error near position", "stored as", *map(_label, POSITIONS), "wrong values"]
    rows = [
        [row["name"], *_errors(row, "max_error")[1:], _wrong(row)]
        for row in section["accuracy"]
        if row["found"]
    ]
    return _markdown(header, rows)


def _with_values(rows: list[list[str]], *, names: int = 1) -> list[list[str]]:
    """Return the rows that have a value after their names."""
    return [row for row in rows if any(cell != NO_VALUE for cell in row[names:])]
