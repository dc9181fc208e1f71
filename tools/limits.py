"""Run each command at lengths from 10^3 to 2^53, and write the outcomes to docs/limits.md.

Usage: python -m tools.limits [--check]

A row of `ROWS` is a command line with the length in it. The outcome follows from the status and the
output: the command refused in one line, wrote bytes until the reader stopped, or answered. An
answer says how many positions it shows if it does not show all. ``--check`` compares with the page.
No command may take more than `MOST_SECONDS` of CPU or `MOST_BYTES` of memory.
"""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "limits.md"
SIZES = {10**3: "10³", 10**5: "10⁵", 10**6: "10⁶", 10**9: "10⁹", 2**53: "2⁵³"}
MOST_SECONDS, MOST_BYTES = 60, 2 << 30
_ENOUGH = 1 << 20
"""Bytes of a stream after which the reader stops."""
_SAMPLED = re.compile(
    r"\s(?:of\s+up\s+to|of\s+each)\s+\d+\s|shows\s+\d+\s+of\s+\d+\s+(?:positions|queries)"
)
ROWS = {
    "generate": "-s rope -l {n} -o -",
    "apply": "-s rope --seed 0 -l {n} -o -",
    "heatmap": "-s rope -l {n}",
    "curve": "-s rope -l {n}",
    "rotation": "-s rope -l {n}",
    "spectrum": "-s rope -l {n}",
    "dot-similarity": "-s rope -l {n}",
    "inspect": "-s rope -l {n}",
    "compare": "rope rope -l {n}",
    "rope-check": "-s rope -l {n} --impl rotate.py:rope",
    "check": "-s sinusoidal -l {n} --impl rotate.py:rows",
    "emit": "-s rope -l {n} -o pack",
    "plan": "-m llama-3.1-8b --to {n}",
    "order-check": "-s rope --tokens {n}",
    "heads": "-s rope --train {n}",
    "alibi-slopes": "--heads {n}",
    "positions": "-m llama-3-8b --text {n}",
    "extrapolate": "-s rope --train {n}",
}
_LIMITS = f'ulimit -t {MOST_SECONDS}; ulimit -d {MOST_BYTES >> 10}; exec "$@"'
_LIMITED = ("bash", "-c", _LIMITS, "bash")
_FUNCTIONS = """\
import numpy as np


def angles(positions, d):
    return np.multiply.outer(np.asarray(positions, float), 10000.0 ** (-np.arange(0, d, 2) / d))


def rope(x, positions):
    a, y = angles(positions, x.shape[-1]), np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    y[..., 1::2] = x[..., 1::2] * np.cos(a) + x[..., 0::2] * np.sin(a)
    return y


def rows(positions):
    a = angles(positions, 64)
    return np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(len(a), 64)
"""


def outcome(command: str, length: int) -> tuple[str, str]:
    """Return the outcome of a command at a length, and its error line.

    Raises: AssertionError if it ends without an answer or an error line of posenc.
    """
    arguments = ROWS[command].format(n=length).split()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rotate.py").write_text(_FUNCTIONS, "utf-8")
        running = subprocess.Popen(
            [*_LIMITED, sys.executable, "-m", "posenc_cli", command, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert running.stdout is not None
        begun = running.stdout.read(_ENOUGH)
        if len(begun) == _ENOUGH:
            running.stdout.close()
            rest, said = b"", running.communicate()[1]
        else:
            rest, said = running.communicate()
    words = said.decode() + (begun + rest).decode("utf-8", "replace")
    assert "Traceback" not in words, words[-2000:]
    if len(begun) == _ENOUGH or (running.returncode == 0 and "-o -" in ROWS[command]):
        return ("streams" if "-o -" in ROWS[command] else "all"), ""
    assert running.returncode in (0, 1, 2, 3), f"{command} {length}: status {running.returncode}"
    if running.returncode in (2, 3):
        assert words.startswith("posenc: error: "), words
        line = words.splitlines()[0].removeprefix("posenc: error: ")
        return f"refuses ({running.returncode})", line
    return ("a sample" if _SAMPLED.search(words) else "all"), ""


def row(outcomes: list[tuple[str, str]]) -> list[str]:
    """Return the entries of a command: its outcome at each length, and its first error line."""
    line = next((line for _, line in outcomes if line), "")
    return [*(kind for kind, _ in outcomes), f"`{line}`" if line else ""]


def table(rows: dict[str, list[str]]) -> str:
    """Return the page's table of outcomes."""
    head = ["command", "run as", *SIZES.values(), "message"]
    lines = [
        head,
        ["---"] * len(head),
        *([f"`{name}`", f"`{ROWS[name]}`", *cells] for name, cells in rows.items()),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def said(page: str) -> dict[str, list[str]]:
    """Return the row of each command in the page's table."""
    found = re.findall(r"^\| `([\w-]+)` \| `[^`]*` \| (.*) \|$", page, re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in found}


def main(check: bool) -> int:
    """Run all, and write the page or compare it."""
    with ThreadPoolExecutor(2) as pool:
        runs = {name: [pool.submit(outcome, name, size) for size in SIZES] for name in ROWS}
        rows = {name: row([run.result() for run in each]) for name, each in runs.items()}
    page = PAGE.read_text("utf-8")
    if check:
        return int(said(page) != rows)
    PAGE.write_text(page.partition("| command |")[0] + table(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
