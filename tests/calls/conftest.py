"""What the tests of calls share."""

import importlib
import json
import os
import shutil
import textwrap

import pytest

os.environ.setdefault("SPEC", "0")  # tinygrad checks its own graphs for a quarter of its time
if shutil.which("clang") is None:
    os.environ.setdefault("DEV", "PYTHON")  # tinygrad's device that needs no compiler


@pytest.fixture
def framework(request):
    """A framework by name: its row, its module, and what makes an array of NumPy's."""
    from posenc_cli.frameworks import BY_NAME

    row = BY_NAME[request.param]
    pytest.importorskip(row.module, reason=f"{row.name} is not installed")
    module = importlib.import_module(row.module)
    return row, module, lambda values: row.make(module, values)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine is, no call is left out because it takes long."""
    monkeypatch.setattr("posenc_cli.calls.patterns.SLOW_SECONDS", 1e9)
    monkeypatch.setattr("posenc_cli.calls.call_log.SLOW_SECONDS", 1e9)


@pytest.fixture
def ran(tmp_path, call):
    """Run a command on a function of some code: its status, and its report or what it refuses."""

    def run(code, name, *asked):
        (tmp_path / "mine.py").write_text(textwrap.dedent(code), "utf-8")
        status, out, err = call(*asked, "--json", "--impl", f"./mine.py:{name}")
        return status, json.loads(out) if out else err

    return run


AS_USERS_START_THEM = (
    *("answers_of_processes", "calling", "functions_of_frameworks", "interpreter"),
    *("library_frameworks", "onnx", "renewal", "transformers_modules"),
)
"""Files about processes themselves, whose coverage is measured too."""


@pytest.fixture(autouse=True)
def processes(request):
    """Start processes as users do in files about them, and as copies of a warm one in others."""
    if request.path.stem.removeprefix("test_") not in AS_USERS_START_THEM:
        request.getfixturevalue("warm")
