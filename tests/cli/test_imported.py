"""What each command imports beyond the standard library: what it needs, and late."""

import json
import os
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.cli.command_line import COMMANDS
from tests.processes import ran_code

WATCHED = {
    *("numpy", "typer", "rich", "plotext", "matplotlib", "matplotlib.pyplot", "PIL", "torch"),
    *("orjson", "pandas", "scipy", "pydantic", "transformers", "safetensors", "hashlib"),
}
"""Packages that take their time, and those that only some of the others may bring along.

hashlib is one of them: it loads OpenSSL, 4 MiB."""

TYPER = {"typer"} | ({"rich"} if version("typer") < "0.17" else set())
"""What Typer imports of them: pydantic, too, from 0.29 on, if it is to make values of texts."""

NUMPY = {"numpy"}
FILE = {"numpy", "matplotlib", "PIL", "hashlib"}

RUNS = [
    ("generate -s rope -l 64 --out out.npy", NUMPY),
    ("generate -s rope -l 16384 --out out.npy", NUMPY),
    ("generate -s rope -l 64 --out out.csv", NUMPY | {"orjson"}),
    ("apply -s rope --in table.npy --out out.npy", NUMPY),
    ("emit -s rope -d 8 --layout half --out pack", NUMPY | {"hashlib"}),
    ("alibi-slopes --heads 8", set()),
    ("curve -s t5 --table buckets", NUMPY),
    ("positions -m llama-3-8b --text 8", NUMPY),
    ("resize table.npy --len 128 --out out.npy", NUMPY),
    ("heatmap -s rope -l 64", NUMPY),
    ("heatmap -s alibi -l 64 --json", NUMPY),
    ("heatmap -s rope -l 64 --out out.png", FILE),
    ("curve -s rope", NUMPY),
    ("curve -s rope --out out.svg", FILE),
    ("rotation -s rope", NUMPY),
    ("spectrum -s rope", NUMPY),
    ("explore -s rope --out page.html", NUMPY),
    ("dot-similarity -s rope -l 64", NUMPY),
    ("dot-similarity -s rope -l 64 --out out.npy", NUMPY),
    ("check table.npy -s sinusoidal -d 8", NUMPY),
    ("rope-check -s rope -d 64 -l 64", NUMPY),
    ("order-check -s sinusoidal", NUMPY),
    ("inspect -s sinusoidal -l 64", NUMPY),
    ("heads -s rope --dim 8 --train 8 --test 16", NUMPY),
    ("extrapolate -s rope --size 1x1x8 --train 8 --steps 1 --seeds 1", NUMPY | {"hashlib"}),
    ("compare table.npy table.npy", NUMPY),
    ("explain config.json", set()),
    ("plan --model llama-2-7b --to 16384", NUMPY),
    ("identify table.npy", NUMPY | {"hashlib"}),  # a table of noise may be a seed's: numpy.random
    ("schemes", {"rich"}),
    ("schemes rope", set()),
    ("models", {"rich"}),
    ("completion bash", set()),
]
"""What is run, and what of `WATCHED` it may import besides Typer."""

UNNEEDED = [
    ("generate -s rope -l 64 --out out.npy", "configs checks inference analysis render files.gguf"),
    ("spectrum -s rope", "configs checks inference"),
    ("order-check -s rope -d 16", "configs encoding.axial numerics.bounded"),
    (
        "rope-check -s rope -d 16 --tables cos.npy sin.npy",
        (
            "configs diagnosis checks.calling checks.additive inference.candidates "
            "calls.function_process"
        ),
    ),
]
"""What is run, and the parts of posenc that it does without: nothing is wrong, no config read."""

OF_ONE_SCHEME = {
    *("formulas.declare", "formulas.parameters", "formulas.tables"),
    *("formulas.rotary", "formulas.inverse"),
}

PROGRAM = """
import sys
from posenc_cli.cli.exits import main
status = main(sys.argv[1:])
print(status, *sys.modules, file=sys.stderr)
"""

CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1}


def imported_by(arguments: list[str], folder) -> tuple[int, set[str]]:
    """The status of a run in a process of its own, and the modules that it imported."""
    # Coverage would import hashlib.
    unmeasured = {name: own for name, own in os.environ.items() if not name.startswith("COVERAGE")}
    environment = {**unmeasured, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = ran_code(PROGRAM, *arguments, check=False, cwd=folder, env=environment)
    status, *modules = done.stderr.splitlines()[-1].split()
    return int(status), {*modules}


def test_every_command_says_what_it_may_import():
    assert {run.split()[0] for run, _ in RUNS} == {*COMMANDS}


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize(("run", "allowed"), RUNS, ids=[run for run, _ in RUNS])
def test_a_command_imports_only_what_it_may(run, allowed, tmp_path):
    np.save(tmp_path / "table.npy", np.eye(64, 8, dtype=np.float32))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    status, modules = imported_by(run.split(), tmp_path)
    assert status in {0, 1}
    assert modules & WATCHED <= TYPER | allowed


@pytest.mark.long
@pytest.mark.parametrize(("run", "unneeded"), UNNEEDED, ids=[run for run, _ in UNNEEDED])
def test_what_is_right_imports_one_scheme_and_nothing_that_says_what_is_wrong(
    run, unneeded, tmp_path
):
    for name, table in zip(("cos", "sin"), posenc.tables("rope", 64, dim=16), strict=True):
        np.save(tmp_path / f"{name}.npy", table)
    status, modules = imported_by(run.split(), tmp_path)
    assert status == 0
    own = {module.removeprefix("posenc_cli.") for module in modules if "posenc_cli." in module}
    parts = tuple(f"{part}." for part in unneeded.split())
    assert {module for module in own if f"{module}.".startswith(parts)} == set()
    assert {module for module in own if module.startswith("formulas.")} == OF_ONE_SCHEME


@pytest.mark.long
@pytest.mark.sweep(8)
@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_neither_numpy_nor_a_painter(command, tmp_path):
    status, modules = imported_by([command, "--help"], tmp_path)
    assert status == 0
    assert {"typer"} <= modules & WATCHED <= TYPER


@pytest.mark.long
@pytest.mark.parametrize(
    "line", ["posenc sche", "posenc generate -s rope --dtype b", "posenc heads "]
)
def test_a_word_that_is_completed_imports_neither_numpy_nor_what_makes_values(
    line, tmp_path, monkeypatch
):
    monkeypatch.setenv("_POSENC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    code = "import atexit, sys\natexit.register(lambda: print(0, *sys.modules, file=sys.stderr))\n"
    monkeypatch.setattr(f"{__name__}.PROGRAM", f"{code}{PROGRAM}")
    status, modules = imported_by([], tmp_path)
    assert status == 0
    assert {"typer"} <= modules & WATCHED <= TYPER


@pytest.mark.long
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_the_program_says_of_itself_imports_nothing(option, tmp_path):
    status, modules = imported_by([option], tmp_path)
    assert (status, modules & WATCHED) == (0, set())


def test_typer_is_used_by_public_names_and_has_no_upper_bound():
    package = Path(posenc.__file__).parent
    project = tomllib.loads((package.parent / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [each for each in project["dependencies"] if each.startswith(("typer", "click"))]
    assert len(asked) == 1
    assert re.fullmatch(r"typer>=[\d.]+", asked[0])
    private = re.compile(r"\btyper(\.\w+)*\._|from typer\S* import .*\b_|(from|import) click\b")
    for file in package.rglob("*.py"):
        assert private.search(file.read_text("utf-8")) is None, file
