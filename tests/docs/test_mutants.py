"""Which mutants the tool draws, of what, and which tests it tries on them."""

from __future__ import annotations

import json

import pytest

from tools import mutants


def test_places_that_do_nothing_are_left_out():
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import numpy
A: int | None = 1 + 2
def f(x: Annotated[int, Param(minimum=1)] = 3, *, y: int | str = 4) -> int | None:
    "A row of text."
    assert x > 0
    return x + y + sum(zip(A, strict=True))
"""
    lines = source.splitlines()
    found = [
        (a[0], lines[a[0] - 1][a[1] : b[1] if a[0] == b[0] else None].strip())
        for a, b in mutants.places_without_effect(source)
    ]
    assert found == [
        (3, "if TYPE_CHECKING:"),
        (5, "int | None"),
        (6, "int | str"),
        (6, "int | None"),
        (7, '"A row of text."'),
        (8, "assert x > 0"),
        (9, "strict=True"),
    ]


def test_the_same_seed_draws_the_same_places_and_one_mutant_of_each():
    places = [
        [
            mutants.Mutant(
                mutants.Place("a.py", (line, 0), (line, 1)), True, f"{line}", name, 0, ""
            )
            for name in ("one", "two")
        ]
        for line in range(50)
    ]
    drawn = mutants.sample(places, 20, seed=3)
    assert drawn == mutants.sample(places, 20, seed=3)
    assert drawn != mutants.sample(places, 20, seed=4)
    assert len({mutant.place for mutant in drawn}) == 20
    kept = mutants.sample(places[:25], 20, seed=3)
    assert set(drawn) & {mutant for each in places[:25] for mutant in each} <= set(kept)


def test_a_mutant_meets_each_function_before_the_second_case_of_any():
    place = mutants.Place("posenc_cli/a/b.py", (2, 0), (2, 4))
    tests = {"t.py::slow": 5.0, "t.py::one[a]": 0.1, "t.py::one[b]": 0.2, "t.py::two": 0.3}
    lines = {"posenc_cli/a/b.py": {2: list(tests), 9: ["t.py::far"]}}
    reached = mutants.Reach(lines, {**tests, "tests/a/t.py::imports": 0.2})
    inside = mutants.Mutant(place, True, "x", "core/AddNot", 0, "f")
    order = ["t.py::one[a]", "t.py::two", "t.py::slow", "t.py::one[b]"]
    assert reached.tests(inside, 99.0, 99) == order
    assert reached.tests(inside, 99.0, 2) == order[:2]
    assert reached.tests(inside, 1.0, 99) == order[:2]
    assert reached.tests(inside._replace(inside=False), 99.0, 99) == [
        "t.py::far",
        *("t.py::one[a]", "tests/a/t.py::imports"),
        *order[1:],
    ]


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ('Axis("query", all(x))', ['Axis("key", all(x))', 'Axis("query", any(x))']),
        ("f'{n} rows of {a.max()}'", ["f'{n} columns of {a.max()}'", "f'{n} rows of {a.min()}'"]),
        ("all, value = min", []),
    ],
)
def test_functions_and_words_become_their_opposites(code, changed):
    parso = pytest.importorskip("parso")

    def nodes(node):
        yield node
        for child in getattr(node, "children", ()):
            yield from nodes(child)

    opposites, found = mutants.Opposites(), []
    for place in range(len(list(nodes(parso.parse(code))))):
        tree = parso.parse(code)
        node = list(nodes(tree))[place]
        for index, _ in enumerate(opposites.mutation_positions(node)):
            opposites.mutate(node, index)
            found.append(tree.get_code())
    assert found == changed


def test_a_run_again_counts_those_killed_before_and_keeps_what_a_reader_wrote(monkeypatch):
    monkeypatch.setattr(mutants.metadata, "version", lambda _: "0")  # it need not be installed

    def mutant(line: int, text: str) -> mutants.Mutant:
        place = mutants.Place("posenc_cli/a/b.py", (line, 4), (line, 5))
        return mutants.Mutant(place, True, text, "core/AddNot", line, "f")

    first = [
        mutants.Outcome(mutant(n, f"x = {n}"), "t.py::t" if n else None, "y", 1) for n in (0, 1)
    ]
    saved = mutants.result({"a": first}, {"a": 9}, 3, last={}, written={})
    assert saved["packages"]["a"] == {"places": 9, "mutants": 2, "killed": 1}
    assert mutants.shares(saved) == {"a": 0.5}
    (alive,) = saved["survivors"]
    assert (alive["line"], alive["before"], alive["equivalent"]) == (0, "x = 0", None)
    alive["equivalent"] = "so it is"
    assert mutants.shares(saved) == {"a": 1.0}
    moved = mutant(70, "x = 0")
    written = mutants.survivors_of(saved, [[mutant(71, "x = 1")], [moved]])
    assert written == {moved: alive}
    again = {"a": [mutants.Outcome(moved, None, "y", 5)]}
    (alive,) = mutants.result(again, {"a": 9}, 3, last=saved, written=written)["survivors"]
    assert (alive["line"], alive["equivalent"]) == (70, "so it is")
    again = {"a": [mutants.Outcome(moved, "t.py::t", "y", 5)]}
    found = mutants.result(again, {"a": 9}, 3, last=saved, written=written)
    assert found["packages"]["a"] == {"places": 9, "mutants": 2, "killed": 2}
    assert found["survivors"] == []


def test_the_saved_sample_was_killed_but_for_one_in_ten_of_each_package():
    saved = json.loads(mutants.RESULT.read_text("utf-8"))
    shares = mutants.shares(saved)
    assert set(shares) >= {"formulas", "configs", "checks", "encoding", "cli", "render"}
    assert min(counts["mutants"] for counts in saved["packages"].values()) >= 35
    assert {name: share for name, share in shares.items() if share < 0.9} == {}
