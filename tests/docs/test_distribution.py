"""What a checkout is installed with, and what a source distribution holds."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from posenc_cli import __version__
from posenc_cli.backends import native

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "constraints.txt").read_text().splitlines()


def test_the_changelog_begins_with_what_is_unreleased_and_this_version():
    releases = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", releases[1])
    assert [*releases[1:]] == sorted({*releases[1:]}, reverse=True)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture
def environment():
    spec = importlib.util.spec_from_file_location("environment", ROOT / "tools" / "environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_source_distribution_holds_every_file(tmp_path):
    """So that its tests, its checks and its commands are those of the checkout."""
    sdist = pytest.importorskip("hatchling.builders.sdist", reason="hatchling is not installed")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    (archive,) = sdist.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as files:
        held = {name.partition("/")[2] for name in files.getnames()}
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(listed.stdout.split("\0")) - {""} - held == set()


def test_a_wheel_holds_the_manual_pages_and_both_names_of_the_program(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    builder = wheel.WheelBuilder(str(ROOT))
    (archive,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(archive) as files:
        held = {name.partition("/")[2]: name for name in files.namelist()}
        for page in (ROOT / "man").iterdir():
            place = f"data/share/man/man1/{page.name}"  # where man looks beside bin/
            assert files.read(held[place]) == page.read_bytes()
        scripts = files.read(held["entry_points.txt"]).decode()
    for name in ("posenc", "posenc-cli"):
        assert f"\n{name} = posenc_cli.__main__:entry_point\n" in scripts


@pytest.mark.long
def test_a_wheel_is_for_one_platform_where_it_has_the_compiled_kernel(tmp_path, monkeypatch):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    compiled = pytest.importorskip("hatch_build").compiled()
    for pure in ("", "1"):
        monkeypatch.setenv("POSENC_PURE", pure)
        builder = wheel.WheelBuilder(str(ROOT))
        (archive,) = builder.build(directory=str(tmp_path), versions=["standard"])
        with zipfile.ZipFile(archive) as files:
            held = [name for name in files.namelist() if name.endswith(".so")]
        has_one = compiled and not pure
        assert held == ([f"posenc_cli/backends/{native.LIBRARY.name}"] if has_one else [])
        assert archive.endswith("-py3-none-any.whl") == (not has_one)


def test_every_requirement_has_a_lower_bound_that_can_be_tried(environment):
    pins = environment.lowest(PROJECT)
    assert "numpy==2" in pins
    assert len({pin.partition("==")[0] for pin in pins}) == len(pins), "one bound a library"
    with pytest.raises(ValueError, match="'rich' has no lower bound"):
        environment.lowest({"dependencies": ["rich"], "optional-dependencies": {}})


def test_the_lock_pins_what_development_asks_for(environment):
    locked = {canonical(line.partition("==")[0]) for line in LOCK}
    asked = {canonical(pin.partition("==")[0]) for pin in environment.lowest(PROJECT)}
    assert asked - {"torch"} <= locked
    assert "torch" not in locked, "chosen by TORCH=..."
    assert [line for line in LOCK if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.mark.parametrize(
    ("versions", "torch"),
    [("locked", ["torch==2.13.0"]), ("locked", []), ("newest", ["torch==2.13.0"])],
)
def test_the_frameworks_come_with_a_pinned_torch_alone(
    versions, torch, environment, tmp_path, monkeypatch
):
    commands = []
    monkeypatch.setattr(environment, "_create", lambda folder: folder.mkdir(exist_ok=True))
    monkeypatch.setattr(
        environment.subprocess, "call", lambda command, **_: commands.append(command) or 0
    )
    monkeypatch.setenv("UV", "uv")
    assert environment.main(str(tmp_path), ["-e", ".[dev]", *torch], versions) == 0
    asked = ".[dev,frameworks]" if versions == "locked" and torch else ".[dev]"
    assert [word for word in commands[-1] if word.startswith(".[")] == [asked]


BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
NEEDED = {"pytest", "pytest-xdist", "hypothesis", "mpmath"}
"""What tests cannot do without."""


@pytest.mark.slow
def test_tests_are_collected_whatever_is_not_installed(environment, tmp_path):
    runtime = environment.lowest({**PROJECT, "optional-dependencies": {}})
    known = {pin.partition("==")[0] for pin in runtime} | NEEDED
    extras = {pin.partition("==")[0] for pin in environment.lowest(PROJECT)} - known
    missing = {name.replace("-", "_") for name in extras} | {"array_api_compat"}
    assert {"torch", "ml_dtypes", "array_api_strict"} <= missing
    (tmp_path / "plain.py").write_text(f"MISSING = {missing}\n{BLOCKED}")
    options = ["-p", "plain", "-p", "no:cacheprovider", "-qq", "--collect-only"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.long
def test_the_python_of_an_active_environment_is_not_what_environments_are_made_with(tmp_path):
    """It would be removed, and made anew, by itself."""
    venv.create(tmp_path, symlinks=True)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHON", None)
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", "asked: ; @echo $(PYTHON)", "asked"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    python = Path(done.stdout.strip())
    assert python.is_file()
    assert tmp_path not in python.parents
