"""Compare published claims on length extrapolation with posenc's own measurements.

Usage: python -m tools.ledger --measure FOLDER | --collect FOLDER

``--measure`` runs every command of the ledger without a result in FOLDER (about two hours on two
cores; stopped runs continue). ``--collect`` writes a summary of the results to
benchmarks/results/ledger.json, from which tools/pages.py writes the tables of docs/ledger.md. The
claims are in tools/claims.py; every verdict follows from the saved numbers, by the rules of the
classes here.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from posenc_cli.experiments.request import ExperimentRequest, JobResult
from posenc_cli.experiments.summary import TOLERATED, Estimate
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from posenc_cli.experiments.request import LengthLosses, RunResult

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "ledger.json"
SEEDS = 5
GROUPS = ("length", "stretch", "task", "expressive")
POINTS = 8
"""Number of points of a curve that are kept."""
DIGITS = 4


class Verdict(StrEnum):
    """The verdict of posenc's measurement on a claim."""

    AGREE = "agree"
    DISAGREE = "disagree"
    UNSEEN = "cannot be seen at this size"


class Run(Record):
    """The training runs of a command; ``of`` are its encodings."""

    of: tuple[str, ...]
    options: str = ""
    stretches: tuple[str, ...] = ("none",)

    def command(self, encodings: Iterable[str], stretches: Iterable[str]) -> str:
        """Return the command that measures some of its encodings and context extensions."""
        schemes = {label.partition(" ")[0] for label in encodings}
        names = [name for name in self.of if name in schemes]
        wanted = [name for name in self.stretches if name in {*stretches}]
        chosen = " ".join(f"-s {name}" for name in names)
        stretched = "" if wanted in ([], ["none"]) else f"--stretch {','.join(wanted)}"
        words = ["posenc extrapolate", chosen, self.options, stretched, f"--seeds {SEEDS}"]
        return " ".join(filter(None, words))


class Row(Record):
    """An encoding of a run, under a context extension."""

    run: str
    encoding: str
    stretch: str = "none"


class Ground(Record):
    """Evidence on a claim: one number, and its verdict."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the runs that measure it."""
        raise NotImplementedError

    def judged(self, results: Results) -> tuple[str, Verdict]:
        """Return the number as text, and the verdict."""
        raise NotImplementedError


class OfRows(Ground):
    """Evidence of trained models."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the runs that measure it."""
        return tuple(value for value in self.as_dict().values() if isinstance(value, Row))

    @property
    def commands(self) -> tuple[str, ...]:
        """Return one command for each run."""
        by_run: dict[str, list[Row]] = {}
        for row in self.rows:
            by_run.setdefault(row.run, []).append(row)
        return tuple(
            _runs()[name].command([row.encoding for row in rows], [row.stretch for row in rows])
            for name, rows in by_run.items()
        )

    def judged(self, results: Results) -> tuple[str, Verdict]:
        """Return the number as text and the verdict; none if a model has not learned."""
        lost = [reason for row in self.rows if (reason := results.unlearnt(row))]
        if lost:
            return "; ".join(lost), Verdict.UNSEEN
        return self._judged(results)

    def _judged(self, results: Results) -> tuple[str, Verdict]:
        raise NotImplementedError


class Rise(OfRows):
    """The increase of the loss over the last positions from the trained to a longer length.

    The claim is that it ``holds``, or not, by the rule of posenc extrapolate.
    """

    row: Row
    times: int
    holds: bool

    def _judged(self, results: Results) -> tuple[str, Verdict]:
        first, later = results.lasts(self.row, 1), results.lasts(self.row, self.times)
        rise = paired_difference(later, first)
        words = (
            f"{_name(self.row)}: {fmean(first):.2f} nats at 1×, {fmean(later):.2f} at "
            f"{self.times}×, {_signed(rise)}"
        )
        verdict = _side(rise, TOLERATED) if self.holds else _opposite(_side(rise, TOLERATED))
        return words, verdict


class Lower(OfRows):
    """Whether one row has a lower loss than another over the last positions of a length."""

    row: Row
    other: Row
    times: int

    def numbers(self, results: Results, row: Row) -> Sequence[float]:
        """Return the compared number of each seed of a row."""
        return results.lasts(row, self.times)

    def side(self, difference: Estimate) -> Verdict:
        """Return the verdict for the difference between the rows."""
        return _side(difference, 0.0)

    def words(self, pair: str) -> str:
        """Return the numbers of both rows as text."""
        return f"{pair} nats at {self.times}×"

    def _judged(self, results: Results) -> tuple[str, Verdict]:
        mine, others = (self.numbers(results, row) for row in self.rows)
        difference = paired_difference(mine, others)
        words = self.words(_pair(self.rows, [fmean(mine), fmean(others)]))
        return f"{words}, {_signed(difference)}", self.side(difference)


class Alike(Lower):
    """Whether two rows differ by less than seeds of models of this size do."""

    def side(self, difference: Estimate) -> Verdict:
        """Return agreement if the whole interval is tolerated, disagreement if none of it is."""
        low, high = _interval(difference)
        if low > -TOLERATED and high < TOLERATED:
            return Verdict.AGREE
        return Verdict.DISAGREE if low > TOLERATED or high < -TOLERATED else Verdict.UNSEEN


class RisesLess(Lower):
    """Whether the loss of one row increases less with length than that of another."""

    def numbers(self, results: Results, row: Row) -> Sequence[float]:
        """Return the increase of the loss of each seed of a row."""
        pairs = zip(results.lasts(row, self.times), results.lasts(row, 1), strict=True)
        return [later - first for later, first in pairs]

    def words(self, pair: str) -> str:
        """Return the increases of both rows as text."""
        return f"loss increase: {super().words(pair)}"


class MoreRight(Lower):
    """Whether one row gives more right answers than another at a length of a task."""

    def numbers(self, results: Results, row: Row) -> Sequence[float]:
        """Return the share of right answers of each seed of a row."""
        return results.shares(row, self.times)

    def side(self, difference: Estimate) -> Verdict:
        """Return agreement if the difference is above 0."""
        return _opposite(_side(difference, 0.0))

    def words(self, pair: str) -> str:
        """Return the shares of both rows as text."""
        return f"{pair} right at {self.times}×"


class Right(OfRows):
    """Whether a row gives at least, or less than, a share of right answers at a length."""

    row: Row
    times: int
    share: float
    more: bool

    def _judged(self, results: Results) -> tuple[str, Verdict]:
        found = Estimate.of(results.shares(self.row, self.times))
        low, high = _interval(found)
        reached = Verdict.AGREE if low >= self.share else Verdict.DISAGREE
        verdict = Verdict.UNSEEN if low < self.share <= high else reached
        share = f"{found.mean:.2f} ±{found.half:.2f}"
        words = f"{_name(self.row)}: {share} right at {self.times}×"
        return words, verdict if self.more else _opposite(verdict)


class Value(Ground):
    """One number of a command's JSON, without seeds, and its lower or upper bound."""

    command: str
    what: str
    path: tuple[str | int, ...]
    bound: float
    least: bool = True

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the command."""
        return (self.command,)

    def judged(self, results: Results) -> tuple[str, Verdict]:
        """Return the number as text, and the verdict."""
        number = results.value(self)
        holds = number >= self.bound if self.least else number <= self.bound
        words = f"{self.what}: {number:.4g}"
        return words, Verdict.AGREE if holds else Verdict.DISAGREE


class Claim(Record):
    """A published claim: its source, what was measured there, and posenc's evidence."""

    group: str
    source: str
    statement: str
    setting: str
    evidence: tuple[Ground, ...]

    def verdict(self, results: Results) -> Verdict:
        """Return agreement if all comparisons agree, disagreement if one disagrees."""
        found = {evidence.judged(results)[1] for evidence in self.evidence}
        if Verdict.DISAGREE in found:
            return Verdict.DISAGREE
        return Verdict.UNSEEN if Verdict.UNSEEN in found else Verdict.AGREE


class Results(Record):
    """The measurements in benchmarks/results/ledger.json."""

    saved: Mapping[str, Any]

    @classmethod
    def read(cls) -> Results:
        """Return the saved results."""
        return cls(json.loads(RESULT.read_text("utf-8")))

    @cached_property
    def _runs(self) -> Mapping[tuple[str, str, str], Sequence[RunResult]]:
        """Return the runs of each row, by seed."""
        found: dict[tuple[str, str, str], list[RunResult]] = {}
        for name, saved in self.saved["runs"].items():
            for fields in saved["results"]:
                for run in JobResult.from_fields(fields).runs:
                    found.setdefault((name, run.encoding, run.stretch), []).append(run)
        return {row: sorted(runs, key=lambda run: run.seed) for row, runs in found.items()}

    @property
    def rows(self) -> Sequence[Row]:
        """Return every row, in the order of the runs."""
        return [Row(*names) for names in self._runs]

    def task(self, row: Row) -> str:
        """Return the task that the models of a row learned."""
        return self._of(row)[0].task

    def _of(self, row: Row) -> Sequence[RunResult]:
        return self._runs[row.run, row.encoding, row.stretch]

    def trained(self, run: str) -> int:
        """Return the trained length of a run's models."""
        return int(self.saved["runs"][run]["results"][0]["trained"])

    def _at(self, row: Row, times: int) -> Sequence[LengthLosses]:
        return [run.at(times * self.trained(row.run)) for run in self._of(row)]

    def lasts(self, row: Row, times: int) -> Sequence[float]:
        """Return each seed's loss over the last positions."""
        return [losses.last for losses in self._at(row, times)]

    def shares(self, row: Row, times: int) -> Sequence[float]:
        """Return each seed's share of right answers."""
        return [losses.accuracy or 0.0 for losses in self._at(row, times)]

    def unlearnt(self, row: Row) -> str | None:
        """Return the task that a row's models failed to learn; None if they learned it."""
        runs = self._of(row)
        first = next((run for run in runs if not run.learnt), None)
        if first is None:
            return None
        learnt = sum(run.learnt for run in runs)
        return f"{_name(row)}: {learnt} of {len(runs)} seeds have learned the task ({first.reason})"

    def value(self, evidence: Value) -> float:
        """Return the number that a command's JSON had at a path."""
        return float(self.saved["values"][value_key(evidence)])


def value_key(evidence: Value) -> str:
    """Return the key of a command's number in the saved file."""
    return f"{evidence.command} · {'.'.join(map(str, evidence.path))}"


def _name(row: Row) -> str:
    return row.encoding if row.stretch == "none" else f"{row.encoding}, {row.stretch}"


def _pair(rows: Sequence[Row], means: Sequence[float]) -> str:
    names = [_name(row) for row in rows]
    if names[0] == names[1]:  # of two runs
        names = [f"{name} ({row.run})" for name, row in zip(names, rows, strict=True)]
    pairs = zip(names, means, strict=True)
    return ", ".join(f"{name} {mean:.2f}" for name, mean in pairs)


def _interval(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def _signed(estimate: Estimate) -> str:
    mean = round(estimate.mean, 2) + 0.0  # no −0.00
    return f"difference {mean:+.2f} ±{estimate.half:.2f}".replace("-", "−")


def paired_difference(minuends: Sequence[float], subtrahends: Sequence[float]) -> Estimate:
    """Return the mean difference of numbers paired by seed: an effect of the seed cancels."""
    return Estimate.of([a - b for a, b in zip(minuends, subtrahends, strict=True)])


def _side(estimate: Estimate, bound: float) -> Verdict:
    """Return agreement if the whole interval is below a bound, disagreement if it is above."""
    low, high = _interval(estimate)
    if high < bound:
        return Verdict.AGREE
    return Verdict.DISAGREE if low > bound else Verdict.UNSEEN


def _opposite(verdict: Verdict) -> Verdict:
    swapped = {Verdict.AGREE: Verdict.DISAGREE, Verdict.DISAGREE: Verdict.AGREE}
    return swapped.get(verdict, verdict)


def measure(folder: Path) -> None:
    """Run what has no result yet."""
    folder.mkdir(exist_ok=True)
    for name, run in _runs().items():
        out = folder / name
        command = shlex.split(run.command(run.of, run.stretches))[1:]
        resumed = ["--resume"] if out.exists() else []
        _posenc([*command, "--out", str(out), *resumed, "--quiet"])
    values = {
        value_key(evidence): measured(evidence)
        for claim in _claims()
        for evidence in claim.evidence
        if isinstance(evidence, Value)
    }
    (folder / "values.json").write_text(json.dumps(values, indent=1), "utf-8")


def _posenc(arguments: Sequence[str]) -> str:
    command = [sys.executable, "-m", "posenc_cli", *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def measured(evidence: Value) -> float:
    """Return the number that a command gives now."""
    found = json.loads(_posenc([*shlex.split(evidence.command)[1:], "--json"]))
    for step in evidence.path:
        found = _stepped(found, step)
    return float(found)


def _stepped(found: Any, step: str | int) -> Any:
    """Return the target of a step: a key, an index, ``name=X`` of a list, or a list's spread."""
    if isinstance(step, int) or isinstance(found, dict):
        return found[step]
    if step == "spread":
        return max(found) / min(found)
    key, _, value = step.partition("=")
    return next(item for item in found if item[key] == value)


def collect(folder: Path) -> None:
    """Keep what was measured, thinned, in the repository."""
    runs = {name: _collected(folder / name, run) for name, run in _runs().items()}
    values = json.loads((folder / "values.json").read_text("utf-8"))
    text = json.dumps({"runs": runs, "values": values}, ensure_ascii=False, separators=(",", ":"))
    for start in ('{"key"', '{"encoding"'):  # a line for each job and run
        text = text.replace(start, f"\n{start}")
    RESULT.write_text(f"{text}\n", "utf-8")


def _collected(folder: Path, run: Run) -> dict[str, Any]:
    request = ExperimentRequest.from_fields(
        json.loads((folder / "request.json").read_text("utf-8"))
    )
    results = [
        json.loads((folder / "results" / f"{job.key}.json").read_text("utf-8"))
        for job in request.jobs()
        if job.encoding.name in run.of
    ]
    for fields in results:
        fields["training"] = []
        for found in fields["runs"]:
            for losses in found["lengths"]:
                losses["by_position"] = _thinned(losses["by_position"])
                for name in ("loss", "last"):
                    losses[name] = round(losses[name], DIGITS)
    return {"command": run.command(run.of, run.stretches), "results": results}


def _thinned(losses: Sequence[float]) -> list[float]:
    """Return means over equal numbers of places, at most `POINTS` of them."""
    width = -(-len(losses) // POINTS)
    parts = [losses[start : start + width] for start in range(0, len(losses), width)]
    return [round(fmean(part), DIGITS) for part in parts]


def counts() -> str:
    """Return the number of claims with each verdict."""
    results = Results.read()
    found = [claim.verdict(results) for claim in _claims()]
    each = ", ".join(f"{found.count(verdict)} *{verdict}*" for verdict in Verdict)
    return f"{len(found)} claims: {each}."


def group_table(group: str) -> str:
    """Return the claims of a group, as a table in Markdown."""
    results = Results.read()
    header = "| claim | source | setting of the source | command | result | verdict |"
    rows = [_table_row(claim, results) for claim in _claims() if claim.group == group]
    return "\n".join([header, "|---|---|---|---|---|---|", *rows])


def lengths_table(*, answers: bool) -> str:
    """Return the loss over the last positions, or the share of right answers, at each length."""
    results = Results.read()
    numbers = results.shares if answers else results.lasts
    lines = ["| encoding | options | 1× | 2× | 4× | 8× |", "|---|---|---|---|---|---|"]
    for row in results.rows:
        if (results.task(row) == "text") is answers:
            continue
        found = [Estimate.of(numbers(row, times)) for times in (1, 2, 4, 8)]
        cells = [f"{each.mean:.2f} ±{each.half:.2f}" for each in found]
        options = f"`{given}`" if (given := _runs()[row.run].options) else ""
        lines.append(f"| {_name(row)} | {options} | {' | '.join(cells)} |")
    return "\n".join(lines)


def versions() -> str:
    """Return the versions and the machine of the measurements."""
    first = next(iter(Results.read().saved["runs"].values()))["results"][0]["environment"]
    names = ", ".join(f"{name} {first[name]}" for name in ("posenc", "torch", "numpy"))
    return f"Measured with {names}, on the CPU."


PARTS: dict[str, Callable[[], str]] = {
    "ledger_counts": counts,
    "ledger_losses": partial(lengths_table, answers=False),
    "ledger_answers": partial(lengths_table, answers=True),
    "ledger_versions": versions,
    **{f"ledger_{group}": partial(group_table, group) for group in GROUPS},
}
"""The parts that tools/pages.py writes into docs/ledger.md."""


def _table_row(claim: Claim, results: Results) -> str:
    commands = dict.fromkeys(text for each in claim.evidence for text in each.commands)
    numbers = [each.judged(results)[0] for each in claim.evidence]
    cells = [
        claim.statement,
        claim.source,
        claim.setting,
        "<br>".join(f"`{command}`" for command in commands),
        "<br>".join(numbers),
        f"**{claim.verdict(results)}**",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _runs() -> Mapping[str, Run]:
    from tools.claims import RUNS

    return RUNS


def _claims() -> tuple[Claim, ...]:
    from tools.claims import CLAIMS

    return CLAIMS


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; the status."""
    match arguments:
        case ["--measure", folder]:
            measure(Path(folder))
        case ["--collect", folder]:
            collect(Path(folder))
        case _:
            sys.exit("usage: python -m tools.ledger --measure FOLDER | --collect FOLDER")
    return 0


if __name__ == "__main__":
    sys.modules["tools.ledger"] = sys.modules[__name__]  # whose classes tools/claims.py uses
    sys.exit(main(sys.argv[1:]))
