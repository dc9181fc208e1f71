"""``python -m benchmarks``: measure, print tables, save the numbers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    accuracy,
    corners,
    machine,
    processes,
    sizes,
    speed_floor,
    speed_peers,
    streaming,
)
from benchmarks.report import Results, as_json, as_plain, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from benchmarks.accuracy import Judged
    from benchmarks.measuring import Section
    from benchmarks.sizes import Sizes

RESULT = Path(__file__).parent / "results" / "measured.json"
"""The source of docs/performance.md."""
HISTORY = RESULT.parent / "history"
"""Every whole run, by version and day."""

SECTIONS: Mapping[str, Callable[[Sizes], Section | Judged]] = {
    "speed": speed_floor.measured,
    "peers": speed_peers.measured,
    "streaming": streaming.measured,
    "corners": corners.measured,
    "memory": processes.memory,
    "growth": processes.growth,
    "startup": processes.startup,
    "accuracy": accuracy.measured,
}


def main(arguments: list[str]) -> int:
    """Measure what is asked for; status 0 whatever comes out."""
    asked = _parser().parse_args(arguments)
    chosen = sizes.QUICK if asked.quick else sizes.FULL
    if asked.quick:
        print("A quick run: smaller than what the goals are for.\n")
    if machine.load() > machine.BUSY:
        print("The machine is busy: what takes long will look worse than it is. Two threads, which")
        print("would share the second core with others, are not measured.\n")
        chosen = replace(chosen, threads=(1,))
    results = measured(chosen, asked.only or SECTIONS)
    whole = not asked.quick and not asked.only
    output = asked.output or (RESULT if whole else None)
    if output is None:
        print("not saved: not a whole run (--output FILE saves it)")
    else:
        if asked.only and output.exists():
            saved = json.loads(output.read_text(encoding="utf-8"))
            results = {**saved, "sections": {**saved["sections"], **results["sections"]}}
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(as_json(results), encoding="utf-8")
    if whole:
        HISTORY.mkdir(exist_ok=True)
        kept = HISTORY / f"{results['machine']['posenc']}-{_today()}.json"
        kept.write_text(as_json(results), encoding="utf-8")
    return 0


def measured(chosen: Sizes, names: Iterable[str]) -> Results:
    """Return the results of some sections, and print each as soon as it is known."""
    facts = machine.facts()
    found: Results = {}
    for name in names:
        found[name] = {**as_plain(SECTIONS[name](chosen)), "day": _today()}
        print(as_text(found[name]), flush=True)
    return {"machine": facts, "sizes": asdict(chosen), "sections": found}


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repetitions")
    parser.add_argument("--only", metavar="NAME", action="append", choices=SECTIONS, help="some")
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"[default: {RESULT.name}]")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
