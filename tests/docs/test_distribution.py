"""What a checkout is installed with, and what a source distribution holds."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from posenc_cli import __version__
from posenc_cli.backends import native
from tests.processes import PATIENCE, ran

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


def lowest(requirements):
    """The lower bounds of requirements, each of which must have one: (name, bound)."""
    bounded = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)(?:,<[\w.]+)?(?:;.*)?")
    found = {requirement: bounded.fullmatch(requirement) for requirement in requirements}
    assert [requirement for requirement, match in found.items() if match is None] == []
    return sorted({match.groups() for match in found.values()})


def asked_for():
    """All requirements but the exact versions of peers, which nothing else installs."""
    extras = [those for name, those in PROJECT["optional-dependencies"].items() if name != "peers"]
    return [*PROJECT["dependencies"], *itertools.chain(*extras)]


def wheel_of(wheel, source, folder):
    """The wheel that hatchling builds of a source, in a folder."""
    (archive,) = wheel.WheelBuilder(str(source)).build(directory=str(folder), versions=["standard"])
    return archive


@pytest.mark.long
def test_the_source_distribution_holds_every_file(tmp_path):
    """So that its tests, its checks and its commands are those of the checkout."""
    sdist = pytest.importorskip("hatchling.builders.sdist", reason="hatchling is not installed")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    (archive,) = sdist.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as files:
        held = {name.partition("/")[2] for name in files.getnames()}
    listed = ran("git", "ls-files", "-z", cwd=ROOT)
    assert set(listed.stdout.split("\0")) - {""} - held == set()


@pytest.mark.long
def test_a_wheel_holds_the_manual_pages_and_both_names_of_the_program(tmp_path, monkeypatch):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    monkeypatch.setenv("POSENC_PURE", "1")
    with zipfile.ZipFile(wheel_of(wheel, ROOT, tmp_path)) as files:
        held = {name.partition("/")[2]: name for name in files.namelist()}
        for page in (ROOT / "man").iterdir():
            place = f"data/share/man/man1/{page.name}"  # where man looks beside bin/
            assert files.read(held[place]) == page.read_bytes()
        scripts = files.read(held["entry_points.txt"]).decode()
    for name in ("posenc", "posenc-cli"):
        assert f"\n{name} = posenc_cli.__main__:entry_point\n" in scripts


BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ", b"!<arch>\n")
"""How libraries, programs and object files of Linux, macOS and Windows begin."""
X86_64, AARCH64 = (b"\x7fELF\x02\x01".ljust(18, b"\0") + end for end in (b"\x3e\0", b"\xb7\0"))
"""How libraries for these machines begin: ``elf.h`` has EM_X86_64 = 62 and EM_AARCH64 = 183."""


@pytest.fixture
def tree(tmp_path):
    """What posenc is built from, in a folder with libraries that were left in it."""
    tree = tmp_path / "a tree"
    ignored = shutil.ignore_patterns("*.so", "*.so.crc32", "__pycache__")
    shutil.copytree(ROOT / "posenc_cli", tree / "posenc_cli", ignore=ignored)
    shutil.copytree(ROOT / "man", tree / "man")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    (tree / "tests").mkdir()
    backends = tree / "posenc_cli" / "backends"
    stale = native.LIBRARY.name.replace(native.DIGEST, "0" * len(native.DIGEST))
    old = f"waves.{native.DIGEST}.so"
    for name in (native.LIBRARY.name, native.library_of("linux-aarch64").name, stale, old):
        (backends / name).write_bytes(AARCH64 + b"left")
        native.seal(backends / name)
    for path in ("tests/peer.so", "tests/peer.dylib", "posenc_cli/peer.pyd", "posenc_cli/a.o"):
        (tree / path).write_bytes(AARCH64)
    return tree


def unpacked(archive, folder):
    """What an archive holds, in a folder: its files."""
    shutil.unpack_archive(archive, folder, "zip" if archive.endswith(".whl") else "gztar")
    return [path for path in folder.rglob("*") if path.is_file()]


def binaries(files):
    return [path.name for path in files if path.read_bytes().startswith(BINARY)]


@pytest.fixture
def builders(monkeypatch):
    """The builders of hatchling, and nothing in the environment that they heed."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # hatch_build.py adds its folder
    for name in ("POSENC_PURE", "POSENC_PLATFORM", "CC"):
        monkeypatch.delenv(name, raising=False)
    names = ("sdist", "wheel")
    return [
        pytest.importorskip(f"hatchling.builders.{name}", reason="hatchling is not installed")
        for name in names
    ]


@pytest.mark.slow
def test_a_source_distribution_has_no_binary_and_its_wheel_the_kernel_of_this_machine(
    tree, builders, tmp_path
):
    sdist, wheel = builders
    (archive,) = sdist.SdistBuilder(str(tree)).build(directory=str(tmp_path))
    files = unpacked(archive, tmp_path / "source")
    assert {"waves.c", "waves_kernel.h", "hatch_build.py"} <= {path.name for path in files}
    assert [path.name for path in files if ".so" in path.suffixes or path.name == "peer.pyd"] == []
    assert binaries(files) == []
    (source,) = (tmp_path / "source").iterdir()
    archive = wheel_of(wheel, source, tmp_path)
    held = unpacked(archive, tmp_path / "wheel")
    has_one = shutil.which("cc") is not None
    assert binaries(held) == ([native.LIBRARY.name] if has_one else [])
    assert archive.endswith("-py3-none-any.whl") == (not has_one)
    for library in (path for path in held if path.suffix == ".so"):
        assert native.is_whole(library)
        assert library.read_bytes()[18:20] == Path(sys.executable).read_bytes()[18:20]


PLATFORMS = {
    "linux-x86_64": ("manylinux_2_17_x86_64", X86_64),
    "linux-aarch64": ("manylinux_2_17_aarch64", AARCH64),
    "linux-x86_64-musl": ("musllinux_1_2_x86_64", X86_64),
    "linux-aarch64-musl": ("musllinux_1_2_aarch64", AARCH64),
    "darwin-x86_64": ("macosx_11_0_x86_64", b"\xcf\xfa\xed\xfe\x07\0\0\x01"),
    "darwin-arm64": ("macosx_11_0_arm64", b"\xcf\xfa\xed\xfe\x0c\0\0\x01"),
}
"""The tags of wheels, and how libraries begin, as ``elf.h`` and Apple's ``loader.h`` say."""


@pytest.mark.long
@pytest.mark.parametrize("name", PLATFORMS)
def test_a_compiler_for_another_platform_gives_the_wheel_of_that_one_alone(
    name, tree, builders, tmp_path, monkeypatch
):
    _, wheel = builders
    tag, content = PLATFORMS[name]
    compiler = tmp_path / "a compiler"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp "$(dirname "$0")/made" "$2"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", f"'{compiler}' --target={name}")
    for other, (_, made) in PLATFORMS.items():
        (tmp_path / "made").write_bytes(made)
        monkeypatch.setenv("POSENC_PLATFORM", name)
        if made != content:
            with pytest.raises(RuntimeError, match=f"POSENC_PLATFORM={name}: CC names no compiler"):
                wheel_of(wheel, tree, tmp_path)
            continue
        archive = wheel_of(wheel, tree, tmp_path)
        assert archive.endswith(f"-py3-none-{tag}.whl")
        held = unpacked(archive, tmp_path / other)
        assert binaries(held) == [native.library_of(name).name]
        assert [path.read_bytes() for path in held if path.suffix == ".so"] == [content]
    monkeypatch.setenv("POSENC_PLATFORM", "linux-arm64")
    with pytest.raises(ValueError, match="POSENC_PLATFORM=linux-arm64: not one of linux-x86_64, "):
        wheel_of(wheel, tree, tmp_path)


@pytest.mark.long
def test_a_wheel_without_the_kernel_is_for_every_platform(tree, builders, tmp_path, monkeypatch):
    _, wheel = builders
    monkeypatch.setenv("POSENC_PURE", "1")
    archive = wheel_of(wheel, tree, tmp_path)
    assert archive.endswith("-py3-none-any.whl")
    assert binaries(unpacked(archive, tmp_path / "wheel")) == []


def test_every_requirement_has_a_lower_bound_that_can_be_tried():
    pins = lowest(asked_for())
    assert ("numpy", "2") in pins
    assert len({name for name, _ in pins}) == len(pins), "one bound a library"


def test_the_lock_pins_what_development_asks_for():
    locked = {canonical(line.partition("==")[0]) for line in LOCK}
    asked = {canonical(name) for name, _ in lowest(asked_for())}
    assert asked - {"torch"} <= locked
    assert "torch" not in locked, "chosen by TORCH=..."
    assert [line for line in LOCK if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.fixture
def made(tmp_path):
    """Make an environment by programs that write down how they are called."""
    calls = tmp_path / "calls"
    note = f'#!/bin/sh\necho "$(basename "$0") $*" >> "{calls}"\n[ "$1" != -c ] || echo works\n'
    python, uv = tmp_path / "a python", tmp_path / "a uv"
    of_venv = f"printf '%s' '{note}' > \"$3/bin/python\"; chmod +x \"$3/bin/python\""
    python.write_text(f'{note}case "$*" in "-m venv"*) mkdir -p "$3/bin"; {of_venv};; esac\n')
    python.chmod(0o755)

    def run(*words, uv_works=None, stamp=".installed"):
        calls.write_text("")
        uv.write_text(note + f"exit {0 if uv_works else 1}\n")
        uv.chmod(0o755)
        venv = tmp_path / "venv"
        asked = [f"PYTHON={python}", f"UV={'' if uv_works is None else uv}", f"VENV={venv}"]
        environment = {key: value for key, value in os.environ.items() if key != "TORCH"}
        subprocess.run(
            ["make", "--no-print-directory", f"{venv}/{stamp}", *asked, *words],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        return [line for line in calls.read_text().splitlines() if " -c " not in line]

    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("uv_works", "installers"),
    [(None, ["python -m pip"]), (True, ["a uv pip"]), (False, ["a uv pip", "python -m pip"])],
    ids=["no uv", "uv", "uv without an index"],
)
def test_uv_installs_where_it_can_and_else_pip(uv_works, installers, made):
    venv, *rest = made(uv_works=uv_works)
    assert venv.startswith("a python -m venv ")
    assert [line.partition(" install ")[0] for line in rest] == installers
    for line in rest:
        assert line.endswith(" -e . --constraint constraints.txt")
    assert made(uv_works=uv_works) == [], "it is made once"


@pytest.mark.long
@pytest.mark.parametrize("uv_works", [None, True])
def test_the_lowest_versions_are_chosen_by_uv_which_pip_brings(uv_works, made, tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    if uv_works is None:
        with pytest.raises(subprocess.CalledProcessError):  # this pip brings none
            made("VERSIONS=lowest")
        assert (tmp_path / "calls").read_text().endswith(" --no-compile uv\n")
    else:
        _, line = made("VERSIONS=lowest", uv_works=True)
        assert " -e . --resolution=lowest-direct --only-binary=:all: " in line


@pytest.mark.long
@pytest.mark.parametrize(
    ("versions", "torch", "extras"),
    [("locked", "2.13.0", "dev,frameworks"), ("locked", "", "dev"), ("newest", "2.13.0", "dev")],
)
def test_the_frameworks_come_with_a_pinned_torch_alone(versions, torch, extras, made):
    stamp = f".developed-{versions}{torch}"
    _, line = made(f"VERSIONS={versions}", f"TORCH={torch}", uv_works=True, stamp=stamp)
    assert f" -e .[{extras}] " in line
    assert (f" torch=={torch} " in line) == bool(torch)


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
def test_tests_are_collected_whatever_is_not_installed(tmp_path):
    known = {name for name, _ in lowest(PROJECT["dependencies"])} | NEEDED
    extras = {name for name, _ in lowest(asked_for())} - known
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
