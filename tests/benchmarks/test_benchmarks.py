"""Benchmarks run end to end, save strict JSON, and give the README its section."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import accuracy, machine, peers, processes, sizes, speed_floor, streaming
from benchmarks.measuring import Goal, Measurement, Section, Spread, Timings, paired
from benchmarks.posenc_tables import BASE, DIM, Work, engine
from benchmarks.report import as_plain, as_text, performance_markdown
from posenc_cli.backends import registry
from posenc_cli.backends.registry import Status
from posenc_cli.numerics.dtypes import REAL_DTYPES

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

TINY = sizes.Sizes(
    rows=64,
    repetitions=2,
    text_rows=4,
    memory_lengths=(16, 32),
    memory_runs=1,
    growth_lengths=(16, 32),
    process_rounds=1,
    neighbours=1,
)
SAVED = command.RESULT


def strict(text: str):
    def refused(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refused)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory):
    """The text and the saved result of one quick run with tiny sizes."""
    output = tmp_path_factory.mktemp("results") / "new" / "quick.json"
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sizes, "QUICK", TINY)
        patch.setattr(machine, "load", lambda: 0.0)
        assert command.main(["--quick", "--output", str(output)]) == 0
    return printed.getvalue(), strict(output.read_text())


@pytest.mark.long
def test_a_second_thread_is_not_measured_on_a_busy_machine(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sizes, "QUICK", TINY)
    monkeypatch.setattr(machine, "load", lambda: 2.0)
    output = tmp_path / "busy.json"
    assert command.main(["--quick", "--only", "speed", "--output", str(output)]) == 0
    assert "Two threads" in capsys.readouterr().out
    assert {each["threads"] for each in measurements(strict(output.read_text()))} == {1}


def measurements(result, section=None):
    for name, each in result["sections"].items():
        if section in (None, name):
            yield from each.get("measurements", ())


@pytest.mark.slow
def test_a_run_has_every_section_the_machine_and_the_sizes(quick):
    _, result = quick
    assert list(result["sections"]) == list(command.SECTIONS)
    assert result["sizes"] == json.loads(json.dumps(vars(TINY)))
    assert result["machine"]["cores"] >= 1
    assert result["machine"]["libraries"]["numpy"] == np.__version__


@pytest.mark.slow
def test_every_measurement_has_a_spread_or_says_why_not(quick):
    _, result = quick
    for each in measurements(result):
        if each["spread"] is None:
            assert each["note"], each
            assert each["met"] is None
        else:
            low, middle, high = (each["spread"][end] for end in ("min", "median", "max"))
            assert low <= middle <= high
            assert each["spread"]["repetitions"] >= 1
            assert (each["met"] is None) == (each["goal"] is None)


@pytest.mark.slow
def test_all_backends_formats_and_threads_are_measured(quick):
    _, result = quick
    found = {(m["name"], m["dtype"], m["threads"]) for m in measurements(result, "speed")}
    for backend in registry.BUILT_IN:
        for dtype in ("float32", "float64") if backend == "torch" else REAL_DTYPES:
            assert {(f"posenc {backend}", dtype, threads) for threads in (1, 2)} <= found
    rivals = {m["name"] for m in measurements(result, "peers")}
    assert {library.name for library in peers.LIBRARIES if library.speed} <= rivals
    assert {"textbook NumPy float32", "textbook NumPy float64", "textbook torch"} <= rivals


@pytest.mark.slow
def test_what_is_beside_large_tables_is_measured(quick):
    _, result = quick
    found = {m["name"]: m["spread"] for m in measurements(result, "corners")}
    assert {"rope-check of tables", "identify", "every second position"} <= found.keys()
    assert {"--arithmetic bfloat16", "posenc numpy, 2 columns", "ALiBi's scores"} <= found.keys()
    assert all(spread["min"] > 0 for spread in found.values())


@pytest.mark.slow
def test_the_accuracy_table_finds_exact_tables_right_and_float32_code_wrong(quick):
    _, result = quick
    rows = {(row["name"], row["dtype"]): row for row in result["sections"]["accuracy"]["accuracy"]}
    for dtype in REAL_DTYPES:
        found = rows["posenc numpy", dtype]["found"]
        assert [each["position"] for each in found] == list(accuracy.POSITIONS)
        assert all(each["wrong"] == 0 and each["max_ulp"] <= 0.5 for each in found)
    worst = rows["textbook NumPy float32", "float32"]["found"][-1]
    assert worst["wrong"] > 0.9 * worst["cells"]
    assert worst["max_error"] > 0.5


@pytest.mark.slow
def test_every_peer_is_accurate_at_its_own_rule_where_positions_are_small(quick):
    """A wrong base or order of columns would be an error of the order of one."""
    _, result = quick
    for row in result["sections"]["accuracy"]["accuracy"]:
        if row["found"] and row["dtype"] in ("float32", "float64"):
            assert row["found"][0]["max_error"] < 1e-3, row["name"]


@pytest.mark.slow
def test_tables_fit_a_hundred_columns(quick):
    text, _ = quick
    assert max(map(len, text.splitlines())) <= 100
    assert "missed" in text or "met" in text


@pytest.mark.slow
def test_the_section_of_the_readme_has_every_table(quick):
    _, result = quick
    section = performance_markdown(result)
    for each in result["sections"].values():
        assert f"**{each['title']}.**" in section
    for table in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        assert len({line.count("|") for line in table.strip().splitlines()}) == 1
    assert "None" not in section
    assert "nan" not in section


@pytest.mark.skipif(not SAVED.is_file(), reason="no result has been saved yet")
def test_the_saved_result_is_whole_and_renders():
    result = strict(SAVED.read_text(encoding="utf-8"))
    assert list(result["sections"]) == list(command.SECTIONS)
    assert result["sizes"] == json.loads(json.dumps(vars(sizes.FULL)))
    assert performance_markdown(result).count("| --- |") >= len(command.SECTIONS)


def test_only_some_sections_run_when_asked_and_nothing_is_saved(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "FULL", TINY)
    monkeypatch.setattr(command, "RESULT", tmp_path / "measured.json")
    assert command.main(["--only", "growth"]) == 0
    out = capsys.readouterr().out
    assert "Growth with length" in out
    assert "not saved" in out
    assert not list(tmp_path.iterdir())


def test_a_section_that_is_measured_again_takes_its_place_among_the_saved_ones(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(sizes, "FULL", TINY)
    output = tmp_path / "some.json"
    output.write_text('{"machine": "old", "sections": {"growth": 1, "peers": 2}}')
    assert command.main(["--only", "growth", "--output", str(output)]) == 0
    saved = strict(output.read_text())
    assert [*saved["sections"]] == ["growth", "peers"]
    assert (saved["machine"], saved["sections"]["peers"]) == ("old", 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", saved["sections"]["growth"]["day"])


def test_paired_functions_take_turns_and_the_first_round_is_discarded():
    calls: list[str] = []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = paired(functions, repetitions=3, warm_ups=2)
    assert "".join(calls) == "ab" * 5
    assert [len(each) for each in times.seconds.values()] == [3, 3]


def test_a_ratio_is_the_median_of_the_ratios_of_each_round():
    """Not the ratio of medians: that would mix rounds."""
    times = Timings({"a": [1.0, 10.0, 6.0], "b": [1.0, 5.0, 1.0]})
    assert times.ratio("a", "b") == Spread(2.0, 1.0, 6.0, 3)


def test_goals_are_met_at_their_limit_and_on_their_side():
    assert Goal("at most", 2.0).met(2.0)
    assert not Goal("at most", 2.0).met(2.1)
    assert Goal("at least", 2.0).met(2.0)
    assert not Goal("at least", 2.0).met(1.9)


def test_a_missing_peer_is_a_row_that_says_so():
    row = Measurement("someone", "posenc", None, goal=Goal("at least", 3), note="not installed")
    section = as_plain(Section("Speed", "…", (row,)))
    assert "not installed" in as_text(section)
    assert section["measurements"][0]["met"] is None


@pytest.mark.long
def test_a_backend_that_cannot_be_used_is_a_row_that_says_so(monkeypatch):
    status = registry.status
    gone = Status(available=False, version=None, devices=(), reason="not installed")
    monkeypatch.setattr(registry, "status", lambda n: gone if n == "fast" else status(n))
    monkeypatch.setattr(speed_floor, "DTYPES", ("float32",))
    rows = [m for m in speed_floor.measured(TINY).measurements if m.name == "posenc fast"]
    assert len(rows) == 2
    assert all(row.note == "not available" and row.met is None for row in rows)
    assert all(row.goal is not None for row in rows)


def test_what_all_rows_share_is_said_once_above_a_table_that_fits():
    spread = Spread(26.04, 10.25, 100.04, 7)
    rows = tuple(
        Measurement(
            "textbook NumPy float32, reusing memory",
            f"posenc {backend}",
            spread,
            dtype="float32",
            threads=1,
            goal=Goal("at least", 30),
        )
        for backend in ("numpy", "fast")
    )
    lines = as_text(as_plain(Section("Speed", "…", rows))).splitlines()
    assert "dtype: float32; threads: 1; runs: 7" in lines
    assert max(map(len, lines)) <= 100
    assert lines[-1].endswith("≥ 30  missed")


@pytest.mark.long
@pytest.mark.parametrize("dtype", list(REAL_DTYPES))
def test_filled_drawn_and_made_tables_are_the_same(dtype):
    work = Work(5000, dtype)
    one, two = engine("numpy"), engine("numpy", threads=2)
    out = work.touched()
    work.fill(out, two)
    drawn = np.concatenate(list(work.plan().matrix(one).blocks()))
    assert out.tobytes() == drawn.tobytes() == work.make(one).tobytes()


def test_the_truth_rounds_as_ml_dtypes_and_numpy_do():
    truth = accuracy._truth((3, 1000), BASE)
    for name, kind in (
        ("float64", np.float64),
        ("float32", np.float32),
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
    ):
        expected = truth.high.astype(kind).astype(np.float64)
        assert (truth.rounded(REAL_DTYPES[name]) == expected).mean() > 0.999
    with mpmath.workprec(200):
        angle = 1000 * mpmath.mpf(BASE) ** (mpmath.mpf(-2) / DIM)
        assert truth.high[1, 1] == float(mpmath.cos(angle))
        assert truth.high[1, DIM // 2 + 1] == float(mpmath.sin(angle))


def test_errors_and_units_are_those_of_the_stored_format():
    form = REAL_DTYPES["float32"]
    truth = accuracy.Truth([], np.array([[0.75, 2.0**-130]]), np.array([[0.0, 0.0]]))
    values = np.array([[0.75 + 2.0**-24, 2.0**-130 + 2.0**-149]])
    found = accuracy._found(5, values, truth, truth.high, form)
    assert (found.cells, found.wrong, found.max_error, found.max_ulp) == (2, 2, 2.0**-24, 1.0)


def test_zeros_take_as_many_bytes_as_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "unlink", lambda _: None)
    streaming._zeros(Work(5000, "float32"), tmp_path / "zeros")
    assert (tmp_path / "zeros").stat().st_size == 5000 * DIM * 4


@pytest.mark.long
def test_the_peak_of_a_process_is_its_own_and_not_that_of_the_one_that_started_it():
    ballast = np.ones(1 << 24)
    small = processes._peak(processes.NOTHING)
    large = processes._peak([*processes.NOTHING[:2], "x = b'1' * (64 << 20)"])
    assert small < ballast.nbytes / processes.MEBIBYTE / 2
    assert 60 < large - small < 72


@pytest.mark.long
def test_what_a_child_process_computes_is_counted_and_not_what_it_waits_for():
    began = processes._processor_seconds()
    processes._run([sys.executable, "-S", "-c", "import time; time.sleep(1)"])
    waited = processes._processor_seconds()
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    processes._run([sys.executable, "-S", "-c", busy])
    assert waited - began < 0.5 < processes._processor_seconds() - waited


def test_a_library_that_is_not_there_has_no_version():
    assert machine.installed("surely-not-a-library") is None
    library = peers.Library("x", "surely-not-a-library", lambda _: None, 1, lambda _: np.empty(0))
    assert library.missing == "surely-not-a-library missing"


def test_modules_of_commands_are_compiled_once_whatever_the_environment_says(tmp_path, monkeypatch):
    (tmp_path / "imported.py").touch()
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    processes._run([sys.executable, "-c", "import imported"])
    assert list(tmp_path.glob("__pycache__/imported.*.pyc"))
