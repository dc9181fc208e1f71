"""Count how many small changes of posenc's own code make a test fail.

Usage: python tools/mutants.py [--seed N] [--each N] [--again | --renew] [PACKAGE…]

Cosmic Ray makes the changes, one at a time, in a copy of the tree. A first run of the tests under
coverage shows which tests reach which line; a mutant is tried only with those, the fastest first.
The mutants are a sample of the places that can change, with one change for each. The result is
tests/mutants.json. It keeps a reader's note on a survivor (``equivalent``: why no test can
distinguish it from the code) from run to run. ``--again`` tries only the survivors without such a
note, and counts again. ``--renew`` tries nothing, and updates the places of the survivors.
"""

import argparse
import ast
import concurrent.futures
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "tests" / "mutants.json"
PACKAGES = tuple(
    sorted(
        path.parent.name
        for path in (ROOT / "posenc_cli").glob("*/__init__.py")
        if path.parent.name != "examples"
    )
)
SEED = 11
EACH = 12
"""Mutants of a package: of a share of 90 % the sample of all then errs by 2 % (one sigma), that of
one package by 9 %."""

FIRST_SECONDS, ALL_SECONDS = 10.0, 120.0
"""Seconds for the tests of a mutant: at first, and at most. Survivors need the second."""
MOST_CASES = 200, 2000
"""Most tests of a mutant, at first and at the end; a command line holds no more."""
SWEEPS = 4
"""The share of the sweeps to run, one in this many: all of them take most of an hour."""
STARTING = 60
"""Seconds that a run of pytest may take beside its tests, on a machine with other work."""
SLOWER = 10
"""The factor of the measured time after which a mutant counts as endless."""

COPIED = ("posenc_cli", "tests", "benchmarks", "tools", "docs", ".ci")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "--hypothesis-profile=test")
SETTINGS = "settings.ini"
_COVERAGE = """[run]
source = {copy}/posenc_cli
parallel = true
patch = subprocess, _exit
data_file = {data}
context = ${{MUTANTS_TEST}}
"""


class Place(NamedTuple):
    """A place to change: a file, relative to the root, and lines and columns in it."""

    path: str
    start: tuple[int, int]
    stop: tuple[int, int]


class Mutant(NamedTuple):
    """A change of a place: the operator of Cosmic Ray, and which of its occurrences in the file.

    ``inside`` says whether the place is in the body of a function, or else runs on import;
    ``text`` is its line.
    """

    place: Place
    inside: bool
    text: str
    operator: str
    occurrence: int
    definition: str


class Outcome(NamedTuple):
    """The outcome of a mutant: the failed test, or None, and the number of tests.

    ``after`` is the changed line.
    """

    mutant: Mutant
    killer: str | None
    after: str
    tests: int


class Reach(NamedTuple):
    """The tests that reach each line of each file, and the seconds of each test."""

    lines: Mapping[str, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def tests(self, mutant: Mutant, limit: float, most: int) -> list[str]:
        """Return the tests for a mutant, the fastest first, within ``limit`` seconds.

        They are those that reach its lines. What runs when a module is imported is reached by the
        test that happens to import it, and what it makes is read without a line of the file: of
        that, all tests of the package, and all that reach the file.
        """
        path, lines = mutant.place.path, self.lines.get(mutant.place.path, {})
        whole = range(mutant.place.start[0], mutant.place.stop[0] + 1)
        found = {
            test for line in (whole if mutant.inside else lines) for test in lines.get(line, ())
        }
        if not mutant.inside:
            folder = f"tests/{Path(path).parts[1]}/"
            found |= {test for test in self.seconds if test.startswith(folder)}
        chosen: list[str] = []
        for test in _by_turns(found, self.seconds):
            limit -= self.seconds.get(test, 0.0)
            if (limit < 0 and chosen) or len(chosen) == most:
                break
            chosen.append(test)
        return chosen


def _by_turns(tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Return tests in an order that tries many functions early: first one case of each."""
    rank: dict[str, int] = {}
    cases: dict[str, int] = defaultdict(int)
    for test in sorted(tests, key=lambda test: (seconds.get(test, 0.0), test)):
        function = test.partition("[")[0]
        rank[test] = cases[function]
        cases[function] += 1
    return sorted(rank, key=lambda test: (rank[test], seconds.get(test, 0.0), test))


# What can be changed


def _both_ways(*pairs: str) -> dict[str, str]:
    """Return pairs of words in both directions."""
    split = [pair.split() for pair in pairs]
    return {**dict(split), **{second: first for first, second in split}}


class Opposites:
    """An operator beside those of Cosmic Ray: functions and words become their opposites.

    All for any, the largest for the smallest; and in texts what a picture or a message is of.
    """

    functions: Mapping[str, str] = _both_ways("all any", "max min", "argmax argmin", "ceil floor")
    words: Mapping[str, str] = _both_ways(
        *("query key", "queries keys", "position offset", "positions offsets", "row column"),
        *("rows columns", "cos sin", "largest smallest", "first last", "even odd"),
    )

    @staticmethod
    def arguments() -> Sequence[Any]:
        """Return None: the operator has no arguments."""
        return ()

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield where a node of the syntax tree can be changed, at most once."""
        if self._opposite(node) is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """Return the changed node."""
        node.value = self._opposite(node)
        return node

    def _opposite(self, node: Any) -> str | None:
        if node.type == "name" and node.value in self.functions:
            called = node.get_next_leaf().value == "("
            return self.functions[node.value] if called else None
        if node.type in ("string", "fstring_string"):
            parts = re.split(r"([a-z]+)", node.value)
            changed = "".join(self.words.get(part, part) for part in parts)
            return changed if changed != node.value else None
        return None


def operators() -> dict[str, Any]:
    """Return all operators by name, after registering posenc's own with Cosmic Ray."""
    from cosmic_ray import plugins

    plugins.OPERATOR_PROVIDERS["posenc"] = {"Opposites": Opposites}
    found = {name: plugins.get_operator(name) for name in sorted(plugins.operator_names())}
    return {name: each() for name, each in found.items() if not each.arguments()}


def places_without_effect(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the (line, column) ranges of a file that have no effect when posenc runs.

    They are docstrings, annotations that call nothing, what is imported for those alone, and
    assertions (``strict=True`` of a zip is one), which tell a type checker and a reader what cannot
    be otherwise.

    >>> places_without_effect("def f(x: int | None = 1): return x")
    [((1, 9), (1, 19))]
    """
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(args=given):
                arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                annotations = [each.annotation for each in arguments] + [node.returns]
                found += [each for each in annotations if each and not _calls(each)]
            case ast.AnnAssign(annotation=annotation) if not _calls(annotation):
                found.append(annotation)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert():
                found.append(node)
            case ast.keyword(arg="strict"):
                found.append(node)
            case ast.Expr(value=ast.Constant(value=str())):
                found.append(node)
    return sorted((_start(node), _stop(node)) for node in found)


def places_of_bodies(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the (line, column) ranges of the bodies of functions."""
    return [
        (_start(node.body[0]), _stop(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]


def _calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _stop(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def mutants_of(package: str) -> list[list[Mutant]]:
    """Return all possible mutants of a package, by place."""
    ready = operators()
    by_place: dict[Place, list[Mutant]] = defaultdict(list)
    for path in sorted((ROOT / "posenc_cli" / package).rglob("*.py")):
        for mutant in _mutants_of_file(path, ready):
            by_place[mutant.place].append(mutant)
    return [by_place[place] for place in sorted(by_place)]


def _mutants_of_file(path: Path, ready: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield the possible mutants of a file, with Cosmic Ray's numbers."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.ast.ast_query import ASTQuery

    source = path.read_text("utf-8")
    nodes, lines = list(ast_nodes(get_ast(source))), source.splitlines()
    left_out, bodies = places_without_effect(source), places_of_bodies(source)
    for name, operator in ready.items():
        found = ((node, *at) for node in nodes for at in operator.mutation_positions(node))
        for occurrence, (node, start, stop) in enumerate(found):
            place = Place(path.relative_to(ROOT).as_posix(), start, stop)
            if not _within(place, left_out):
                definition = ASTQuery(node).get_definition_name() or ""
                text = lines[start[0] - 1].strip()
                yield Mutant(place, _within(place, bodies), text, name, occurrence, definition)


def _within(place: Place, parts: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> bool:
    return any(start <= place.start and place.stop <= stop for start, stop in parts)


def sample(places: Sequence[Sequence[Mutant]], count: int, seed: int) -> list[Mutant]:
    """Return mutants of ``count`` different places, drawn by a seed.

    Each has a number by what it changes, and the lowest are drawn: a change of the code elsewhere
    leaves the others of a sample as they are.
    """
    lowest = [min((_lot(mutant, seed), mutant) for mutant in each) for each in places]
    return sorted(mutant for _, mutant in sorted(lowest)[:count])


def _lot(mutant: Mutant, seed: int) -> str:
    place = mutant.place
    what = (seed, place.path, mutant.definition, mutant.text, place.start[1], mutant.operator)
    return hashlib.sha256(repr(what).encode()).hexdigest()


# Which tests see what


def pytest_runtest_protocol(item: Any) -> None:
    """Name the test that runs, to coverage here and in processes that are started."""
    import coverage

    os.environ["MUTANTS_TEST"] = item.nodeid
    # Processes are to read the file, which names the variable, not what coverage made of it here.
    if os.environ.pop("COVERAGE_PROCESS_CONFIG", None):
        os.environ["COVERAGE_PROCESS_START"] = str(item.config.rootpath / SETTINGS)
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)


def reach(copy: Path) -> Reach:
    """Run the tests once, in a copy of the tree, and see which of them reach what.

    Tests that fail without a mutant are named and left out.
    """
    import coverage

    data = copy / "reached"
    settings = copy / SETTINGS
    settings.write_text(_COVERAGE.format(copy=copy, data=data))
    command = [
        *(sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"),
        *(*_PYTEST[1:], "-n", "auto", "-p", "tools.mutants", "--sweeps", str(SWEEPS)),
        *("--junitxml", f"{copy}/times.xml", "-o", "junit_family=xunit1"),
    ]
    ran = subprocess.run(
        command, cwd=copy, env=_environment(copy), check=False, capture_output=True, text=True
    )
    if not (copy / "times.xml").exists():
        sys.exit(f"the tests cannot be run:\n{ran.stdout[-4000:]}{ran.stderr[-2000:]}")
    seconds = _seconds(copy / "times.xml")
    measured = coverage.Coverage(data_file=str(data), config_file=False)
    measured.combine([str(path) for path in copy.glob("reached.*")], keep=True)
    found = measured.get_data()
    lines: dict[str, dict[int, list[str]]] = {}
    for file in found.measured_files():
        contexts = found.contexts_by_lineno(file)
        lines[Path(file).relative_to(copy).as_posix()] = {
            line: sorted(name for name in names if name in seconds)
            for line, names in contexts.items()
        }
    return Reach(lines, seconds)


def _seconds(times: Path) -> dict[str, float]:
    """Return the seconds of each test that passed, from pytest's report."""
    from xml.etree import ElementTree

    seconds = {}
    for case in ElementTree.parse(times).iter("testcase"):
        name = _node(case.get("file", ""), case.get("classname", ""), case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            print(f"left out, for it fails as it is: {name}", flush=True)
        elif case.find("skipped") is None:
            seconds[name] = float(case.get("time", 0))
    return seconds


def _node(file: str, place: str, test: str) -> str:
    """Return the id of a test from its file and its dotted place, which ends in its class.

    >>> _node("tests/files/test_save.py", "tests.files.test_save.TestFormat", "test_csv")
    'tests/files/test_save.py::TestFormat::test_csv'
    """
    module = file.removesuffix(".py").replace("/", ".")
    classes = place.removeprefix(module).split(".")[1:]
    return "::".join((file, *classes, test))


def _copied(folder: Path) -> Path:
    """Return a copy of the files that the tests need, for mutants to change."""
    copy = folder / "posenc"
    for name in COPIED:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith(".coverage"):
            shutil.copy2(path, copy)
    return copy


def _environment(copy: Path) -> dict[str, str]:
    """Return the environment of the tests, in which posenc is the copy, in all processes."""
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


# Whether the tests see a mutant

_own: dict[str, Any] = {}
"""The state of a worker process: a copy of the tree, and the tests that reach each line."""


def _begin(reached: Reach) -> None:
    os.nice(10)
    copy = _copied(Path(tempfile.mkdtemp(prefix="mutants-")))
    os.environ |= _environment(copy)
    os.chdir(copy)
    operators()
    _own.update(copy=copy, reached=reached)


def tried(mutant: Mutant) -> Outcome:
    """Return the outcome of a mutant: first with few tests, then with all that reach it."""
    reached: Reach = _own["reached"]
    after = ""
    killer: str | None = None
    tests: list[str] = []
    for seconds, most in zip((FIRST_SECONDS, ALL_SECONDS), MOST_CASES, strict=True):
        more = reached.tests(mutant, seconds, most)
        new = [test for test in more if test not in set(tests)]
        if not new:
            break
        tests = more
        killer, after = _run(mutant, new, reached)
        if killer is not None:
            break
    if not tests:
        _, after = _run(mutant, [], reached)
    return Outcome(mutant, killer, after, len(tests))


def _run(mutant: Mutant, tests: Sequence[str], reached: Reach) -> tuple[str | None, str]:
    """Return the test that a mutant fails, and the line of its error."""
    from cosmic_ray.mutating import mutate_and_test
    from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome

    command = shlex.join([*_PYTEST, "-x", "-n0", "--no-header", *tests]) if tests else "true"
    seconds = STARTING + SLOWER * sum(reached.seconds.get(test, 0.0) for test in tests)
    spec = MutationSpec(
        module_path=Path(mutant.place.path),
        operator_name=mutant.operator,
        occurrence=mutant.occurrence,
        start_pos=mutant.place.start,
        end_pos=mutant.place.stop,
        operator_args={},
    )
    found = mutate_and_test([spec], command, seconds)
    if found.worker_outcome != WorkerOutcome.NORMAL:
        raise RuntimeError(f"{mutant}: {found.output}")
    added = re.findall(r"^\+(?!\+\+)(.*)", found.diff or "", re.MULTILINE)
    after = " ".join(line.strip() for line in added)
    if found.test_outcome == TestOutcome.SURVIVED:
        return None, after
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", found.output or "", re.MULTILINE)
    return failed[1] if failed else (found.output or "").strip()[-80:], after


def outcomes(mutants: Sequence[Mutant], reached: Reach) -> Iterator[Outcome]:
    """Yield the outcome of each mutant, with one process per processor."""
    with concurrent.futures.ProcessPoolExecutor(
        os.cpu_count(), get_context("spawn"), _begin, (reached,)
    ) as workers:
        for number, outcome in enumerate(workers.map(tried, mutants), 1):
            if outcome.killer is None:
                place = outcome.mutant.place
                print(f"{place.path}:{place.start[0]}: survived: {outcome.after}", flush=True)
            if number % 20 == 0:
                print(f"{number} of {len(mutants)}", flush=True)
            yield outcome


def failing_unchanged(killers: Iterable[str], copy: Path) -> list[str]:
    """Return the failed tests that also fail without a mutant."""
    tests = sorted({each for each in killers if "::" in each})
    if not tests:
        return []
    ran = subprocess.run(
        [*_PYTEST, "-n", "auto", *tests],
        cwd=copy,
        env=_environment(copy),
        check=False,
        capture_output=True,
        text=True,
    )
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)


# The result


def survivor(outcome: Outcome) -> dict[str, Any]:
    """Return the record of a mutant that no test killed."""
    return {
        **_known_by(outcome.mutant),
        "line": outcome.mutant.place.start[0],
        "after": outcome.after,
        "tests": outcome.tests,
        "equivalent": None,
    }


def _known_by(mutant: Mutant) -> dict[str, Any]:
    """Return the part of a mutant that does not depend on its line."""
    return {
        "file": mutant.place.path,
        "definition": mutant.definition,
        "operator": mutant.operator,
        "column": mutant.place.start[1],
        "before": mutant.text,
    }


def survivors_of(
    last: Mapping[str, Any], places: Iterable[Sequence[Mutant]]
) -> dict[Mutant, Mapping[str, Any]]:
    """Return the survivors of the last result that are still possible mutants."""
    alive = list(last.get("survivors", ()))
    found = {}
    for mutant in (mutant for each in places for mutant in each):
        known = _known_by(mutant).items()
        same = next((each for each in alive if known <= each.items()), None)
        if same is not None:
            alive.remove(same)
            found[mutant] = same
    return found


def renewed(saved: Mapping[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """Return a result with the current functions and lines of its survivors.

    Survivors whose code no longer exists are removed.
    """
    counts = {name: dict(each) for name, each in saved.get("packages", {}).items()}
    survivors = []
    for each in saved.get("survivors", ()):
        path = root / each["file"]
        source = path.read_text("utf-8") if path.exists() else ""
        texts = enumerate(source.splitlines(), 1)
        places = {
            line: _definition(source, line)
            for line, text in texts
            if text.strip() == each["before"]
        }
        same = [line for line, name in places.items() if name == each["definition"]] or places
        if same:
            line = min(same, key=lambda line: abs(line - each["line"]))
            survivors.append({**each, "definition": places[line], "line": line})
        else:
            counts[each["file"].split("/")[1]]["mutants"] -= 1
    return {**saved, "packages": counts, "survivors": survivors}


def _definition(source: str, line: int) -> str:
    """Return the name of the innermost function or class around a line, or an empty text."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""


def result(
    found: Mapping[str, Sequence[Outcome]],
    places: Mapping[str, int],
    seed: int,
    *,
    last: Mapping[str, Any],
    written: Mapping[Mutant, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the result, with the mutants killed in ``last``.

    ``written`` are survivors of an earlier run, whose ``equivalent`` is kept.
    """
    counts = dict(last.get("packages", {}))
    for package, outcomes in found.items():
        before = counts[package]["killed"] if package in counts else 0
        killed = before + sum(outcome.killer is not None for outcome in outcomes)
        count = before + len(outcomes)
        counts[package] = {"places": places[package], "mutants": count, "killed": killed}
    return {
        "tool": f"cosmic-ray {metadata.version('cosmic-ray')}",
        "python": platform.python_version(),
        "seed": seed,
        "packages": counts,
        "survivors": [
            {**survivor(each), "equivalent": written.get(each.mutant, {}).get("equivalent")}
            for outcomes in found.values()
            for each in outcomes
            if each.killer is None
        ],
    }


def shares(saved: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of killed mutants in each package, without equivalent ones."""
    same = [each["file"].split("/")[1] for each in saved["survivors"] if each["equivalent"]]
    return {
        package: counts["killed"] / (counts["mutants"] - same.count(package))
        for package, counts in saved["packages"].items()
    }


def save(result: Mapping[str, Any], out: Path) -> None:
    """Write a result as JSON."""
    out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, try, count and save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--each", type=int, default=EACH, help="mutants of a package")
    parser.add_argument("--again", action="store_true", help="the survivors of the last run alone")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--renew", action="store_true", help="find the survivors, and try nothing")
    asked = parser.parse_args(arguments)
    last = renewed(json.loads(RESULT.read_text("utf-8"))) if RESULT.exists() else {}
    if asked.renew:
        save(last, asked.out)
        return 0
    every = {package: mutants_of(package) for package in asked.packages}
    written = survivors_of(last, (each for places in every.values() for each in places))
    drawn = {
        name: [mutant for each in places for mutant in each if mutant in written]
        if asked.again
        else sample(places, asked.each, asked.seed)
        for name, places in every.items()
    }
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = _copied(Path(folder))
        print("which tests reach which line …", flush=True)
        reached = reach(copy)
        known = [
            Outcome(mutant, None, same["after"], same["tests"])
            for mutant, same in written.items()
            if asked.again and same["equivalent"]
        ]
        told = {each.mutant for each in known}
        mutants = [mutant for each in drawn.values() for mutant in each if mutant not in told]
        print(f"{len(mutants)} mutants …", flush=True)
        all_outcomes = [*known, *outcomes(mutants, reached)]
        flaky = failing_unchanged((each.killer or "" for each in all_outcomes), copy)
    if flaky:
        sys.exit(f"these tests fail without a mutant too, and prove nothing: {', '.join(flaky)}")
    found = {
        package: sorted(each for each in all_outcomes if each.mutant in set(drawn[package]))
        for package in asked.packages
    }
    saved = result(
        found,
        {name: len(places) for name, places in every.items()},
        asked.seed,
        last=last if asked.again else {},
        written=written,
    )
    save(saved, asked.out)
    for package, share in shares(saved).items():
        counts = saved["packages"][package]
        print(f"{package:10} {counts['killed']:3} of {counts['mutants']} killed, {share:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
