"""What a process finds around it: no standard input, no folder, foreign modules, odd variables."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_cli.errors import Unavailable
from tests.processes import ran

POSENC = shlex.join([sys.executable, "-m", "posenc_cli"])
SMALL = ["generate", "-s", "rope", "-l", "5", "-o", "-", "--format", "csv"]
PLOT = ["curve", "-s", "rope", "-l", "16", "--dims", "0:5"]
"""Five curves without colours, which only lines of characters tell apart."""


def run(
    *command: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return ran(*command, check=False, cwd=folder, env={**os.environ, **environment})


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("sh", "-c", command, folder=folder, **environment)


def python(
    code: str, *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code, *arguments, folder=folder, **environment)


@pytest.mark.sweep(9)
@pytest.mark.parametrize("arguments", [["schemes"], ["alibi-slopes"], PLOT], ids=" ".join)
@pytest.mark.parametrize("size", ["1" * 4400, "999999999", "²", "٣", "-5", " 7", "1e2"])
def test_a_size_that_is_no_terminals_is_as_none(size, arguments, call, monkeypatch):
    expected = call(*arguments)
    assert expected[0] == 0
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, size)
        assert call(*arguments) == expected
        assert name not in os.environ  # where libraries would find it


@pytest.mark.slow
def test_a_command_in_a_folder_that_is_gone(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    gone = f"rmdir {shlex.quote(str(folder))} && {POSENC}"
    done = shell(f"{gone} {shlex.join(SMALL)}", folder)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    folder.mkdir()
    done = shell(f"{gone} generate -s rope -l 5", folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1


def test_torch_is_not_imported_where_it_would_end_the_process(tmp_path, monkeypatch):
    from posenc_cli.backends import torch as torch_device

    monkeypatch.setattr(torch_device, "installed", lambda _: True)
    monkeypatch.setattr(torch_device, "import_module", lambda _: pytest.fail("imported"))

    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(Unavailable, match="the current folder no longer exists"):
        torch_device.library()


def test_modules_of_the_current_folder_are_not_imported(tmp_path):
    """But for those that ``python -m`` itself imports before any line of posenc's."""
    (tmp_path / "first.py").write_text("import sys\nprint(*sys.modules)\n")
    own = shell(f"{shlex.quote(sys.executable)} -m first", tmp_path).stdout.split()
    packages = {"typer", "click", "numpy", "rich", "matplotlib", "torch", "orjson"}
    for name in (sys.stdlib_module_names | packages) - {*own}:
        (tmp_path / f"{name}.py").write_text("import os\nos._exit(99)\n")
    for arguments in (["--version"], SMALL):
        done = shell(f"{POSENC} {shlex.join(arguments)}", tmp_path)
        assert done.returncode == 0, done.stderr


WARNING = """
import sys
import warnings
import numpy as np
def check(*_):
    warnings.warn("of a library", DeprecationWarning)
    np.float64(1e308) * np.float64(1e308)
from posenc_cli.files import formats
formats.FORMATS["csv"].__dict__["check"] = check
from posenc_cli.__main__ import entry_point
entry_point()
"""


@pytest.mark.sweep(3)
@pytest.mark.parametrize("filters", ["default", "error", ""])
def test_warnings_of_python_reach_no_user(filters):
    done = python(WARNING, *SMALL, "-q", PYTHONWARNINGS=filters)
    assert (done.returncode, done.stderr) == (0, "")


ABSENT = """
import sys
name, *sys.argv[1:] = sys.argv[1:]
sys.modules[name] = None
from posenc_cli.__main__ import entry_point
entry_point()
"""


def check_unavailable(done: subprocess.CompletedProcess[str], package: str, folder: Path) -> None:
    assert (done.returncode, done.stdout) == (3, "")
    message, hint = done.stderr.splitlines()
    assert message.startswith("posenc: error: ")
    assert package in message
    assert "pip install" in hint
    assert package in hint
    left = [each for each in folder.iterdir() if each.name != "__pycache__"]
    assert not [each for each in left if each.suffix != ".py"]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("typer", ["schemes", "--help"]),
        ("numpy", SMALL),
        ("orjson", SMALL),
        ("matplotlib", ["heatmap", "-s", "rope", "-l", "9", "-o", "a.png"]),
        ("plotext", PLOT),
    ],
)
def test_a_dependency_that_is_missing_is_status_3_by_name(package, arguments, tmp_path):
    check_unavailable(python(ABSENT, package, *arguments, folder=tmp_path), package, tmp_path)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("package", "content", "arguments"),
    [
        ("typer", "raise RuntimeError('broken')", ["schemes", "--help"]),
        ("numpy", "", SMALL),
        ("numpy", "import absent", SMALL),
        ("plotext", "raise OSError('no shared object')", PLOT),
    ],
)
def test_a_dependency_that_does_not_load_is_status_3_by_name(package, content, arguments, tmp_path):
    (tmp_path / f"{package}.py").write_text(content)
    done = shell(f"{POSENC} {shlex.join(arguments)}", tmp_path, PYTHONPATH=str(tmp_path))
    check_unavailable(done, package, tmp_path)


def test_tables_need_no_rich(call):
    """It draws progress bars on terminals alone."""
    done = python(ABSENT, "rich", "schemes")
    assert (done.returncode, done.stdout) == call("schemes")[:2]


def test_a_bug_of_posencs_own_is_not_laid_at_a_dependency():
    from posenc_cli.cli.help.usage import unloaded_dependency

    for raises in (lambda: [].absent, lambda: __import__("posenc_cli.absent"), lambda: 1 / 0):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            raises()
        assert unloaded_dependency(caught.value) is None


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "arguments",
    ["explain -", "generate --config - -l 5", "heatmap --in -", "identify -", "compare - rope"],
)
def test_a_closed_stdin_is_status_3(arguments, tmp_path):
    done = shell(f"{POSENC} {arguments} <&-", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1
    assert "standard input is closed" in done.stderr
