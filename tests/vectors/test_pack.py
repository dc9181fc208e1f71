"""Golden packs: that they pass what is right, kill what is wrong, and say which mistake it is."""

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli import catalogue
from posenc_cli.checks.known_bugs import rotations
from posenc_cli.choice import choice_of_schemes
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.vectors.pack import VectorPack, default_positions
from posenc_cli.vectors.pack_folder import compare_with_pack, write_pack

pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.textbook import CASES

ALONG_A_LINE = [name for name, case in CASES.items() if case.axes is None]
BEYOND = {
    "nearly": "within the tolerance: correct float32 code errs as much",
    "float32_far": "past 2^24, which no pack reaches",
    "one_missing": "of a position that the pack has not",
    "rows_exchanged": "of positions that the pack has not",
    "rows_missing": "of positions that the pack has not",
    "cosine_missing": "of a row that the pack has not",
}
"""Mutants that a pack of one row a position cannot see, and why."""

APART = [name for name, mutant in MUTANTS.items() if mutant.case in ALONG_A_LINE]


def pack_of(scheme, *, positions=None, dtype=FLOAT32, rule="auto", seed=0, **given):
    choice = choice_of_schemes(scheme, given, positions=positions)
    return VectorPack.of(choice, seed=seed, dtype=dtype, rule=rule)


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    """The pack of a case of the textbook, and its folder."""
    folder, made = tmp_path_factory.mktemp("packs"), {}

    def pack(name):
        if name not in made:
            made[name] = pack_of(CASES[name].scheme, **CASES[name].given)
            write_pack(made[name], str(folder / name))
        return made[name], folder / name

    return pack


def comparison_of(folder, tmp_path, y):
    np.save(tmp_path / "y.npy", y)
    return compare_with_pack(str(folder), str(tmp_path / "y.npy"))


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_textbook_code_passes_the_pack_in_float64_and_in_float32(name, packs, tmp_path):
    pack, folder = packs(name)
    for compute in (np.float64, np.float32):
        right = replace(CASES[name].right, compute=compute)
        comparison = comparison_of(
            folder, tmp_path, right(np.float32(pack.content.arrays["x"]), pack.content.positions)
        )
        assert comparison.ok
        assert comparison.worst < 0.5


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_packs_kill_every_mistake_that_is_known_of_the_textbook_cases(name, packs):
    pack, _ = packs(name)
    assert pack.detected == len(pack.known) > 90


OF_PACKS = {
    "slow_scaled": ("frequency-rule",),
    "tables_down": ("table-precision",),
    "truncated_pi": ("inv-freq-precision",),  # which errs alike at these positions
    "turned_around_single": ("direction",),  # beside the offset
}
"""What a pack names of mutants, as a bug that vectors are detected by and tables are not."""

FEW = np.array([*range(8), 9, 100, 200, 1500, 4000])


def goes_by_position(name):
    """Whether a mutant makes of a position the same in whatever row it stands."""
    wrong = MUTANTS[name].wrong
    try:
        with np.errstate(all="ignore"):
            every, few = wrong.pair_tables(np.arange(4096)), wrong.pair_tables(FEW)
    except IndexError:
        return False
    return all(
        np.array_equal(all_rows[FEW], rows, equal_nan=True)
        for all_rows, rows in zip(every, few, strict=True)
    )


@pytest.mark.long
@pytest.mark.sweep(11)
@pytest.mark.parametrize("name", APART)
def test_a_mutant_written_apart_from_posenc_fails_and_no_wrong_cause_is_named(
    name, packs, tmp_path
):
    mutant = MUTANTS[name]
    pack, folder = packs(mutant.case)
    if mutant.wrong.rotated > pack.content.arrays["x"].shape[1] or not goes_by_position(name):
        pytest.skip("it turns more columns than there are, or goes by rows and not by positions")
    with np.errstate(all="ignore"):
        y = mutant.wrong(pack.content.arrays["x"], pack.content.positions)
    comparison = comparison_of(folder, tmp_path, y)
    assert comparison.ok == (name in BEYOND)
    causes = [cause for cause, _ in comparison.causes[:1]]
    assert set(causes) <= {*mutant.causes, *mutant.also, *OF_PACKS.get(name, ())}


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "scheme",
    ["xpos", "rope", "rope-yarn", "rope-axial", "sinusoidal", "learned", "alibi", "t5", "fire"],
)
def test_each_known_bug_that_test_vectors_are_made_with_is_named_by_the_search(scheme, tmp_path):
    pack = pack_of(scheme)
    write_pack(pack, str(tmp_path / "pack"))
    mistakes = [(one, wrong) for one, wrong in pack.content.known_bugs() if wrong is not None]
    same = {one.message: one.cause for one in pack.known}
    for mistake, wrong in mistakes[::9]:
        values = wrong.values.reshape(pack.content.shape)
        comparison = comparison_of(tmp_path / "pack", tmp_path, values)
        causes = [cause for cause, _ in comparison.causes]
        alike = {cause for message, cause in same.items() if mistake.message in message}
        assert comparison.ok or {mistake.cause, *alike} & {*causes}, mistake.message


@pytest.mark.long
def test_every_row_of_rotations_is_applied_by_a_pack_and_says_where_it_was_seen():
    packs = [pack_of("rope", dim=16), pack_of("rope-axial", dim=16, grid="4x6")]
    applied = {outcome.cause for pack in packs for outcome in pack.known}
    for bug in rotations.BUGS:
        assert bug.code in applied
        assert bug.seen.startswith("https://github.com/")
        assert bug.remedy


def test_a_crash_of_the_search_is_not_told_as_no_cause(packs, tmp_path, monkeypatch):
    def crashes(*_, **__):
        raise ValueError("a mistake of posenc's own")

    pack, folder = packs("plain")
    monkeypatch.setattr("posenc_cli.checks.search.explanations", crashes)
    with pytest.raises(ValueError, match="of posenc's own"):
        comparison_of(folder, tmp_path, 2 * pack.content.y)


@pytest.mark.long
def test_two_known_bugs_at_once_are_both_named(tmp_path):
    pack = pack_of("sinusoidal", dim=64)
    write_pack(pack, str(tmp_path / "pack"))
    angles = (pack.content.positions[:, None] + 3) * 1e3 ** (-np.arange(32) / 32)
    rows = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(-1, 64)
    comparison = comparison_of(tmp_path / "pack", tmp_path, pack.content.arrays["x"] + rows)
    ((cause, message),) = comparison.causes
    assert (cause, "shifted by +3" in message) == ("base", True)


@pytest.mark.long
def test_what_survives_is_counted_with_its_reason():
    pack = pack_of("rope", positions=Positions.parse("0:4"))
    survivors = [one for one in pack.known if not one.detected]
    assert len(survivors) == len(pack.known) - pack.detected > 5
    assert "positions are clamped at 4095" in [one.message for one in survivors]
    reasons = {one.reason for one in survivors}
    assert {reason.rpartition(" is ")[0] for reason in reasons} == {"the largest difference"}
    assert f"detects {pack.detected} of {len(pack.known)} known bugs" == pack.score


@pytest.mark.long
def test_mistakes_that_give_the_same_values_count_once_and_those_that_cannot_be_made_never():
    pack = pack_of("rope", dim=16)
    messages = [one.message for one in pack.known]
    assert (
        "the rotation runs backward: the sine has the wrong sign, or the first and the second "
        "dimension of each pair are swapped" in messages
    )
    assert len({*messages}) == len(messages)
    reasons = {one.message: one.reason for one in pack.outcomes if one.detected is None}
    assert reasons["all dimensions rotate"] == "all 16 dimensions do"
    assert pack.content.conventions["unchanged"] is None
    partial = pack_of("rope", dim=16, partial=0.5).content.conventions
    assert partial["unchanged"] == "columns 8 to 15"


@pytest.mark.long
def test_what_changes_no_position_that_there_is_is_no_mistake():
    pack = pack_of("rope-axial", dim=16, grid="4x4")
    assert pack.content.positions.tolist() == [*range(16)]
    reasons = {one.message: one.reason for one in pack.outcomes if one.detected is None}
    unseen = "it changes no value at any existing position"
    assert reasons["positions were rounded to bfloat16"] == unseen
    assert pack.detected == len(pack.known)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("scheme", ["rope", "rope-llama3", "rope-resonance", "mrope", "xpos"])
def test_y_is_what_apply_gives_and_tables_what_generate_gives(scheme):
    pack = pack_of(scheme, dim=128)
    positions = pack.content.positions.tolist()
    expected = posenc.apply(np.float32(pack.content.arrays["x"]), scheme, positions, dim=128)
    assert np.array_equal(pack.content.y, expected)
    cos, sin = (posenc.encode(scheme, positions, dim=128, table=name) for name in ("cos", "sin"))
    assert np.array_equal(pack.content.arrays["cos"], cos)
    assert np.array_equal(pack.content.arrays["sin"], sin)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_packs_of_half_precision_pass_code_in_it_and_kill(dtype):
    pack = pack_of("rope", dim=64, layout="half", dtype=dtype)

    def rounded(values):
        return widen(narrow(np.float64(values), None, dtype), dtype)

    assert np.array_equal(rounded(pack.content.arrays["x"]), pack.content.arrays["x"])
    assert np.array_equal(rounded(pack.content.y), pack.content.y)
    cos, sin = (rounded(part) for part in CASES["plain"].right.pair_tables(pack.content.positions))
    a, b = np.split(pack.content.arrays["x"], 2, axis=1)
    first = rounded(rounded(a * cos) - rounded(b * sin))
    second = rounded(rounded(b * cos) + rounded(a * sin))
    missed = np.abs(np.concatenate([first, second], 1) - pack.content.y)
    assert (missed <= pack.content.tolerance).all()
    assert 80 < pack.detected < len(pack.known)  # half precision hides some roundings


@pytest.mark.long
def test_float32_code_passes_a_pack_of_amplitudes_that_grow():
    content = pack_of("xpos", dim=64).content
    growth = content.request.content.waves.growth
    exponents = np.float32(content.positions - growth.centre) / np.float32(growth.span)
    sizes = np.float32([float(base) for base in growth.bases(np)]) ** exponents[:, None]
    angles = np.float32(content.positions)[:, None] * np.float32(content.arrays["inv_freq"])
    cos, sin = np.cos(angles) * sizes, np.sin(angles) * sizes
    x, y = np.float32(content.arrays["x"]), np.empty_like(content.arrays["x"])
    first, second = (content.conventions[f"{name}_columns"] for name in ("first", "second"))
    a, b = x[:, first], x[:, second]
    y[:, first], y[:, second] = a * cos - b * sin, b * cos + a * sin
    assert (np.abs(y - content.y) <= content.tolerance).all()


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("rule", ["float32", "exact", 1e-3])
def test_the_score_is_that_of_the_tolerance_asked_for(rule):
    loose, asked = pack_of("rope", dim=32), pack_of("rope", dim=32, rule=rule)
    assert (
        (asked.content.tolerance == np.float32(1e-3)).all()
        if rule == 1e-3
        else (asked.content.tolerance.max() < loose.content.tolerance.max())
    )
    detected = [outcome.margin > 1 for outcome in asked.known]
    assert sum(detected) == asked.detected


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["rope", "learned", "alibi"])
def test_a_tolerance_of_0_passes_the_very_values_and_nothing_else(scheme, tmp_path):
    pack = pack_of(scheme, positions=Positions.parse("0:9"), rule=0.0)
    write_pack(pack, str(tmp_path / "pack"))
    y = pack.content.y.reshape(pack.content.shape)
    assert comparison_of(tmp_path / "pack", tmp_path, y).ok
    comparison = comparison_of(tmp_path / "pack", tmp_path, np.nextafter(np.float32(y), 9))
    assert comparison.wrong == np.count_nonzero(y)  # 0 may be off by float32's least number


def test_positions_show_powers_of_two_the_end_of_the_context_and_what_is_past_it():
    positions = {*default_positions(8192)}
    assert {0, 1, 7, 127, 128, 255, 256, 257, 8191, 8192, 8193, 65535, 65536, 131073} <= positions
    assert max(default_positions(1_000_000)) == 1_000_001
    assert [*default_positions(4096, 5)] == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_vectors_are_exact_in_every_format_and_never_zero():
    x = pack_of("rope", dim=128).content.arrays["x"]
    assert x.all()
    assert (x * 32 % 2 == 1).all()
    assert np.abs(x).max() < 4
    assert not np.array_equal(x, pack_of("rope", dim=128, seed=1).content.arrays["x"])


def test_float32_code_passes_packs_of_what_is_added_to_vectors():
    pack = pack_of("sinusoidal", dim=64)
    x, positions = np.float32(pack.content.arrays["x"]), np.float32(pack.content.positions)
    angles = positions[:, None] * np.float32(1e4 ** (-np.arange(32) / 32))
    rows = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(-1, 64)
    assert (np.abs(x + rows - pack.content.y) <= pack.content.tolerance).all()
    assert np.array_equal(pack.content.y, posenc.apply(x, "sinusoidal", positions.astype(int)))
    assert (np.abs(rows - pack.content.arrays["rows"]) <= pack.content.tolerance).all()


def test_float32_code_passes_packs_of_scores():
    pack = pack_of("alibi", heads=8)
    positions = pack.content.positions
    slopes = np.float32(2.0) ** -np.arange(1, 9, dtype=np.float32)
    distances = np.float32(np.abs(positions[None] - positions[:, None]))
    scores = -slopes[:, None, None] * distances
    assert pack.content.shape == scores.shape
    missed = np.abs(scores.reshape(pack.content.y.shape) - pack.content.y)
    assert (missed <= pack.content.tolerance).all()


WRONG_ROWS = {
    "exponents of i": lambda p, i: (p * 1e4 ** (-i / 64), 0),
    "from one on": lambda p, i: ((p + 1) * 1e4 ** (-i / 32), 0),
    "cosines first": lambda p, i: (p * 1e4 ** (-i / 32), np.pi / 2),
    "base 1000": lambda p, i: (p * 1e3 ** (-i / 32), 0),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_that_are_written_wrongly_apart_from_posenc_are_found_and_named(name, tmp_path):
    pack = pack_of("sinusoidal", dim=64)
    write_pack(pack, str(tmp_path / "pack"))
    angles, phase = WRONG_ROWS[name](pack.content.positions[:, None], np.arange(32))
    rows = np.stack([np.sin(angles + phase), np.cos(angles - phase)], 2).reshape(-1, 64)
    comparison = comparison_of(tmp_path / "pack", tmp_path, pack.content.arrays["x"] + rows)
    causes = {"exponents of i": ["frequency-rule", "base"], "from one on": ["position-offset"],
              "cosines first": ["cos-sin-mispaired"], "base 1000": ["base"]}  # fmt: skip
    assert [cause for cause, _ in comparison.causes] == causes[name]


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m, d: m * d, "the scores have the wrong sign"),
        (lambda m, d: -m * np.maximum(-d, 0), "keys after the query have the score 0"),
        (lambda m, d: -m[::-1] * np.abs(d), "head 0 has the scores of head 7"),
        (lambda m, d: -m * np.abs(d + 1), "keys are shifted by +1"),
    ],
)
def test_scores_that_are_written_wrongly_apart_from_posenc_are_found_and_named(
    wrong, message, tmp_path
):
    pack = pack_of("alibi", heads=8)
    write_pack(pack, str(tmp_path / "pack"))
    positions = pack.content.positions
    slopes = (2.0 ** -np.arange(1, 9))[:, None, None]
    distances = positions[None] - positions[:, None]
    distances = np.abs(distances) if message == "the scores have the wrong sign" else distances
    comparison = comparison_of(tmp_path / "pack", tmp_path, wrong(slopes, distances)[None])
    assert not comparison.ok
    assert message in comparison.causes[0][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n, s in catalogue.BUILT_IN.items() if s.kind != "relative" and n != "nope"]
)
def test_every_scheme_has_a_pack_that_kills_all_it_can(name):
    given = {"short_factor": "1," * 31 + "1", "long_factor": "2," * 31 + "2"}
    pack = pack_of(name, **(given if name == "rope-longrope" else {}))
    survivors = [one.message for one in pack.known if not one.detected]
    assert survivors == []
    assert pack.detected >= 15
    assert np.isfinite(pack.content.y).all()
    assert (pack.content.tolerance > 0).all()


def test_roundings_that_the_vectors_hide_are_told_with_the_reason():
    pack = pack_of("binary")
    reasons = {each.message: each.reason for each in pack.outcomes if each.detected is None}
    for half in ("bfloat16", "float16", "bfloat16 toward zero"):
        assert "changes no value" in reasons[f"the sum was rounded to {half}"]
