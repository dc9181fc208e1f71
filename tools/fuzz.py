"""Search for bytes on which a reader or the config resolver fails, guided by coverage.

Usage: python -m tools.fuzz [--seconds N] [--out FOLDER] [TARGET…]

Each target of tests/fuzz/targets.py runs for N seconds (600) in its own process under atheris,
which changes the files of the corpus and keeps those that reach new code. The corpus is minimized
and written back, without files above 4 KiB. A value or an error of posenc is a valid answer; a file
with any other outcome is written to the folder as TARGET.crash, and the status is 1.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 4096
"""Most bytes of a file of the corpus, so that its replay is fast."""
_MOST_FILES = 250
SLOW = 10
"""Seconds after which libFuzzer reports a file as hanging."""


def _run(target: str, arguments: list[str]) -> None:
    """Fuzz in this process, which libFuzzer ends."""
    atheris = importlib.import_module("atheris")  # installed by make fuzz alone

    with atheris.instrument_imports(include=["posenc_cli"]):
        from tests.fuzz.targets import TARGETS

    def once(content: bytes) -> None:
        TARGETS[target](content)

    # To merge, libFuzzer starts its first argument anew.
    again = f"{sys.executable} -m tools.fuzz --run {target}"
    atheris.Setup([again, *arguments], once)
    atheris.Fuzz()


def _libfuzzer(target: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.fuzz", "--run", target, f"-timeout={SLOW}"]
    return subprocess.run(
        [*command, "-rss_limit_mb=2048", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def search(target: str, seconds: int, out: Path) -> str:
    """Fuzz a target, keep its corpus, and say what was found; a crash is in the words."""
    from tests.fuzz.targets import CORPUS, corpus, seeds

    with tempfile.TemporaryDirectory() as temporary:
        folder, old, kept = (Path(temporary, name) for name in ("run", "old", "kept"))
        for each in (folder, old, kept):
            each.mkdir()
        known = corpus(target).values() if (CORPUS / f"{target}.zip").exists() else ()
        for place, content in enumerate([*seeds(target), *known]):
            Path(old, str(place)).write_bytes(content)
        ran = _libfuzzer(target, f"-max_total_time={seconds}", "-print_final_stats=1",
                         f"-max_len={1 << 14}", str(old), cwd=folder)  # fmt: skip
        crashes = [
            path for path in folder.iterdir() if path.name.startswith(("crash", "timeout", "oom"))
        ]
        for path in crashes:
            path.replace(out / f"{target}.crash")
        small = [path for path in old.iterdir() if path.stat().st_size <= LARGEST]
        for path in old.iterdir():
            if path not in small:
                path.unlink()
        _libfuzzer(target, "-merge=1", str(kept), str(old), cwd=folder)
        chosen = sorted(kept.iterdir(), key=lambda path: path.stat().st_size)[:_MOST_FILES]
        with zipfile.ZipFile(out / f"{target}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for place, path in enumerate(chosen):
                archive.writestr(zipfile.ZipInfo(f"{place:03}"), path.read_bytes())
    executions = re.findall(r"number_of_executed_units: (\d+)", ran.stderr)
    edges = re.findall(r"cov: (\d+)", ran.stderr)
    if not executions or not edges:
        return f"{target}: crash: {ran.stderr[-2000:]}"
    said = f"{target}: {executions[-1]} executions, {edges[-1]} edges, {len(chosen)} files kept"
    return f"{said}, crash in {target}.crash" if crashes else said


def main(arguments: list[str]) -> int:
    """Fuzz the named targets, or all; return 1 if one found a fault."""
    if arguments[:1] == ["--run"]:
        _run(arguments[1], arguments[2:])
    from tests.fuzz.targets import CORPUS, TARGETS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--out", type=Path, default=CORPUS)
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    crashed = False
    for target in chosen.targets or TARGETS:
        said = search(target, chosen.seconds, chosen.out.resolve())
        crashed |= "crash" in said
        print(said, flush=True)
    return int(crashed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
