"""What tests share: running posenc as a user would, and the golden numbers."""

import gc
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

# What a user, an editor or a CI system says to programs is not said to what is tested. Modules of
# tests copy the environment when they are imported, so it goes before they are.
SAID = ("COLUMNS", "LINES", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "TTY_")
SAID += ("LANG", "LC_", "TZ", "POSENC_", "GITHUB_", "MPL", "_TYPER", "SOURCE_DATE_EPOCH")
SAID += ("VIRTUAL_ENV", "CONDA_PREFIX")
SAID += ("PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONDONTWRITEBYTECODE")
SAID += ("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDEVMODE", "PYTHONSAFEPATH", "PYTHONMALLOC")
for _name in [name for name in os.environ if name.startswith(SAID)]:
    del os.environ[_name]
# Nor to pytest, or each process compiles all tests, their asserts rewritten, again: half of what
# collecting them takes.
sys.dont_write_bytecode = False

# Deadlines, and checks of how long examples take to draw, measure the machine, not the code.
settings.register_profile(
    "new", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# A change passes or fails by what it changes: its examples are always the same.
settings.register_profile("check", settings.get_profile("new"), derandomize=True)
settings.register_profile("test", settings.get_profile("check"), max_examples=5)
settings.load_profile("check")

# A shell starts what runs in the background with SIGINT ignored, and nohup with SIGHUP: what tests
# start would inherit that, and they send these signals.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what runs a share of the tests: each run takes the first of them, too."""
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="run every N-th test")
    parser.addoption(
        "--sweeps",
        type=int,
        default=1,
        metavar="N",
        help="run every N-th slow test, and an N-th of the examples of each property",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the share of examples that ``--sweeps`` asks for, as many as make test does at least."""
    share = max(5, 100 // config.getoption("--sweeps"))
    if share < settings().max_examples:
        settings.register_profile("share", settings(), max_examples=share)
        settings.load_profile("share")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Mark every case of a sweep slow but each n-th, and the first of each class in ``of``.

    Of what is then chosen by marks, keep the shares that ``--sweeps`` and ``--one-in`` ask for.
    """
    cases, seen = Counter[str](), set[tuple[str, object]]()
    for item in items:
        if sweep := item.get_closest_marker("sweep"):
            test = item.nodeid.partition("[")[0]
            classes = sweep.kwargs["of"](**item.callspec.params) if "of" in sweep.kwargs else ()
            new = {(test, each) for each in classes} - seen
            if cases[test] % sweep.args[0] and not new:
                item.add_marker("slow")
            cases[test] += 1
            seen |= new
    yield
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {*slow} - {*slow[:: config.getoption("--sweeps")]}
    kept = [item for item in items if item not in left_out][:: config.getoption("--one-in")]
    config.hook.pytest_deselected(items=[*{*items} - {*kept}])
    items[:] = kept


@settings(max_examples=1, database=None)
@given(strategies.none())
def draw_once(_: None) -> None:
    """Draw one example, of nothing."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among tests that are being collected: there is none."""
    draw_once()  # Hypothesis looks its own source of chance up in the collector, the first time
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests: they stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let no file of tests go unseen that cannot be imported.

    Of a module of posenc whose library is not installed the doctests are left out; pytest would
    leave out all tests of a file likewise.
    """
    report = yield
    unimported = report.skipped and "unable to import module" in str(report.longrepr)
    if unimported and Path(__file__).parent in collector.path.parents:
        report.outcome = "failed"
    if report.skipped:  # or others would import what there is of it, and fail
        for name, module in [*sys.modules.items()]:
            if getattr(module, "__file__", None) == str(collector.path):
                del sys.modules[name]
    return report


GOLDEN = Path(__file__).parent / "golden"

Run = Callable[..., subprocess.CompletedProcess[Any]]


@pytest.fixture
def posenc(tmp_path: Path) -> Run:
    """Run posenc in a folder of its own; text unless ``text=False``.

    With ``measured=False`` coverage is not there, whose imports and locks would show.
    """
    from tests.processes import PATIENCE  # copies the environment, which is cleared above

    def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[Any]:
        own = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "POSENC_BACKEND", "POSENC_THREADS")
        measured = settings.pop("measured", True)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in own and (measured or not name.startswith("COVERAGE"))
        }
        environment = {**inherited, **settings.pop("env", {})}
        settings.setdefault("text", True)
        settings.setdefault("capture_output", "stdout" not in settings)
        settings.setdefault("cwd", tmp_path)
        command = [sys.executable, *settings.pop("flags", []), "-m", "posenc_cli", *arguments]
        return subprocess.run(command, check=False, timeout=PATIENCE, env=environment, **settings)

    return run


@pytest.fixture(scope="session")
def applications() -> Callable[..., Any]:
    """What Typer makes of each command, once for all calls: it takes a while."""
    from posenc_cli.cli import app

    return cache(app._application)


@pytest.fixture(scope="module")
def kept_applications(applications: Callable[..., Any]) -> Generator[None, None, None]:
    """Use those in a file of tests that call `main` for each of their examples."""
    from posenc_cli.cli import app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "_application", applications)
        yield


@pytest.fixture
def call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    applications: Callable[..., Any],
) -> Any:
    """Run a command in this process: (status, stdout, stderr)."""
    from posenc_cli.cli import app
    from posenc_cli.cli.exits import main

    monkeypatch.setattr(app, "_application", applications)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a file's folder is added when it is loaded
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of functions as copies of one that has imported NumPy."""
    from posenc_cli.calls import function_process
    from tests.warm_processes import started

    copying = SimpleNamespace(**{**vars(subprocess), "Popen": started})
    monkeypatch.setattr(function_process, "subprocess", copying)


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., str]:
    """Write a config, by default to config.json, and give the file's name."""

    def write(content: Any, name: str = "config.json") -> str:
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def golden() -> Callable[[str], tuple[dict[str, Any], Any]]:
    """A golden case: what is known of it, and its arrays."""

    def load(name: str) -> tuple[dict[str, Any], Any]:
        return json.loads((GOLDEN / f"{name}.json").read_text()), np.load(GOLDEN / f"{name}.npz")

    return load
