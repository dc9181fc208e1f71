"""Which mutants the tool draws, of what, and which tests it tries on them."""

import json

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


def test_the_saved_sample_was_killed_but_for_one_in_ten_of_each_package():
    saved = json.loads(mutants.RESULT.read_text("utf-8"))
    shares = mutants.shares(saved)
    assert set(shares) == set(mutants.PACKAGES)
    assert min(counts["mutants"] for counts in saved["packages"].values()) >= mutants.EACH - 1
    assert {name: share for name, share in shares.items() if share < 0.9} == {}


def test_survivors_are_named_where_their_code_is(tmp_path):
    saved = json.loads(mutants.RESULT.read_text("utf-8"))
    names = [
        [(each["file"], each["definition"], each["before"]) for each in result["survivors"]]
        for result in (saved, mutants.renewed(saved))
    ]
    assert names[0] == names[1]
    (tmp_path / "posenc_cli" / "files").mkdir(parents=True)
    (tmp_path / "posenc_cli" / "files" / "a.py").write_text("\ndef new():\n    return 1\n")
    place = {"file": "posenc_cli/files/a.py", "definition": "old", "line": 2}
    alive = [{**place, "before": text} for text in ("return 1", "return 2")]
    last = {"packages": {"files": {"mutants": 12}}, "survivors": alive}
    now = mutants.renewed(last, tmp_path)
    assert now["packages"] == {"files": {"mutants": 11}}
    assert now["survivors"] == [{**alive[0], "definition": "new", "line": 3}]
