"""Measure whole processes: start-up time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from compileall import compile_dir
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import posenc_cli
from benchmarks.machine import installed
from benchmarks.measuring import Goal, Measurement, Section, Spread, paired
from benchmarks.posenc_tables import Work, engine
from posenc_cli.backends import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.sizes import Sizes

MEBIBYTE = 1 << 20
NOTHING = [sys.executable, "-c", "pass"]
POSENC = [sys.executable, "-m", "posenc_cli"]
IMPORT_NUMPY = [sys.executable, "-c", "import numpy"]
GENERATE = "posenc generate --scheme rope --len 4096"
CHECK = "posenc rope-check of 512 × 32 tables"
HELP, VERSION = "posenc --help", "posenc --version"
SMALLEST = {
    "alibi-slopes": "--heads 8",
    "apply": "-s rope --in sinusoids.npy -o {nothing} --format npy",
    "check": "sinusoids.npy -s sinusoidal",
    "compare": "sinusoids.npy sinusoids.npy",
    "completion": "bash",
    "curve": "-s sinusoidal -l 64",
    "dot-similarity": "-s rope -l 512",
    "emit": "--check vectors vectors/y.npy",
    "explain": "llama-3.1-8b",
    "explore": "-m llama-3.1-8b --out {nothing}.html",
    "extrapolate": "--help",
    "generate": "-s rope -l 4096 -o {nothing} --format npy",
    "heads": "-s rope --train 16",
    "heatmap": "-s rope -l 64",
    "identify": "sinusoids.npy",
    "inspect": "-s rope -l 64",
    "models": "",
    "order-check": "-s rope -l 64",
    "plan": "-m llama-3.1-8b --to 16384",
    "positions": "-m llama-3-8b --text 8",
    "resize": "sinusoids.npy -l 128 -o {nothing} --format npy",
    "rope-check": "-s rope -l 64",
    "rotation": "-s rope -l 16",
    "schemes": "",
    "spectrum": "-s rope",
}
"""The smallest run of each command: ``sinusoids.npy`` are 64 × 64, ``vectors`` are test vectors,
and ``{nothing}`` is written over."""
DRAWN = ("curve", "rotation")
"""Commands that draw curves with plotext, which takes longer to import than NumPy."""
NUMPY_GOALS = {
    GENERATE: Goal("at most", 1.5),
    CHECK: Goal("at most", 2.0),
    **{
        f"posenc {name} {arguments}".rstrip(): Goal("at most", 1.6)
        for name, arguments in SMALLEST.items()
        if name not in DRAWN
    },
}
PYTHON_GOALS = {HELP: Goal("at most", 3.0), VERSION: Goal("at most", 1.5)}
"""Limits of a start, as multiples of ``import numpy`` and of an idle Python."""
CALLED_GOALS = {"numpy": Goal("at most", 3.0), "torch": Goal("at most", 1.5)}
"""Limit of rope-check for a correct function, as a multiple of importing its library."""

CALLED = """
import {library} as xp

def rope(x, positions):
    rates = 10000.0 ** (-xp.arange(0, x.shape[-1], 2, dtype=xp.float64) / x.shape[-1])
    angles = positions[:, None] * rates
    cos, sin = xp.cos(angles), xp.sin(angles)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = xp.empty_like(x)
    turned[..., 0::2] = first * cos - second * sin
    turned[..., 1::2] = first * sin + second * cos
    return turned
"""

EMPTY_FIGURE = """
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

page = Figure(figsize=(8, 16 / 3), dpi=150)
FigureCanvasAgg(page)
page.savefig("empty.png")
"""
PLAIN_FIGURE = """
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

angles = np.arange(512)[:, None] * 10000.0 ** (-np.arange(0, 64, 2) / 64)
page = Figure(figsize=(8, 16 / 3), dpi=150)
FigureCanvasAgg(page)
axes = page.add_subplot()
values = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
page.colorbar(axes.imshow(values, aspect="auto", cmap="RdBu")).set_label("value")
axes.set(title="rope: 512 positions", xlabel="dimension", ylabel="position")
page.savefig("plain.png")
"""
PICTURES = {
    "posenc heatmap -s rope --out x.png": Goal("at most", 1.3),
    "posenc heatmap -s alibi --heads 64 --out x.png": Goal("at most", 3.0),
}
"""Limit of a picture, as a multiple of saving an empty figure with matplotlib."""
MEMORY_GOALS = {65_536: Goal("at most", 12.0), sys.maxsize: Goal("at most", 16.0)}
"""Limits of memory beyond ``import numpy``, in MiB, by the number of rows."""

# What a process was before it ran its program counts into its peak, and this one may be large: a
# small one in between starts it.
PEAK = """
import resource, subprocess, sys
quiet = subprocess.DEVNULL
subprocess.run(sys.argv[1:], check=True, stdin=quiet, stdout=quiet, stderr=quiet)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def generate(length: int, *, backend: str) -> list[str]:
    """Return the command that writes a rotary table of some rows to /dev/null."""
    options = ["--len", str(length), "-o", os.devnull, "--format", "npy", "--backend", backend]
    return [*POSENC, "generate", "--scheme", "rope", *options]


def startup(sizes: Sizes) -> Section:
    """Return the time of whole processes, relative to ``import numpy`` and an idle Python."""
    commands = {
        "python -c pass": NOTHING,
        "python -c 'import numpy'": IMPORT_NUMPY,
        GENERATE: generate(4096, backend="auto"),
        HELP: [*POSENC, "--help"],
        VERSION: [*POSENC, "--version"],
    }
    compile_dir(Path(posenc_cli.__file__).parent, quiet=1)  # as an installer does
    with tempfile.TemporaryDirectory() as folder:
        tables = [str(Path(folder, f"{table}.npy")) for table in ("cos", "sin")]
        for path, of in zip(tables, posenc_cli.tables("rope", 512, dim=64)[:2], strict=True):
            np.save(path, of)
        np.save(Path(folder, "sinusoids.npy"), posenc_cli.encode("sinusoidal", 64, dim=64))
        _run([*POSENC, "emit", "-s", "sinusoidal", "-d", "8", "--out", "vectors"], folder)
        for name, arguments in SMALLEST.items():
            words = arguments.format(nothing=Path(folder, "nothing")).split()
            commands[f"posenc {name} {arguments}".rstrip()] = [*POSENC, name, *words]
        commands[CHECK] = [*POSENC, "rope-check", "-s", "rope", "-d", "64", "--tables", *tables]
        times = paired(
            {name: partial(_run, command, folder) for name, command in commands.items()},
            repetitions=sizes.process_rounds,
        )
    nothing, numpy, *ours = commands
    found = [Measurement(numpy, nothing, times.ratio(numpy, nothing))]
    for name in ours:
        for base, goals in ((numpy, NUMPY_GOALS), (nothing, PYTHON_GOALS)):
            ratio = times.ratio(name, base)
            found.append(Measurement(name, base, ratio, goal=goals.get(name)))
    how = (
        "Each row compares two processes: it divides the run time of the first by that of the "
        "second (column “compared with”). "
        "The two processes run alternately. Rows with --impl or x.png compare CPU time. “An empty "
        "figure” is a process that saves an empty figure with matplotlib."
    )
    return Section("Start-up", how, (*found, *_called(sizes), *_pictures(sizes)))


def _called(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of ``rope-check --impl`` for each library, relative to importing it."""
    with tempfile.TemporaryDirectory() as folder:
        for library, goal in CALLED_GOALS.items():
            name = f"posenc rope-check --impl of a {library} function, 4096 positions"
            row = partial(Measurement, name, f"import {library}", goal=goal)
            if not installed(library):
                yield row(None, note=f"{library} is not installed")
                continue
            file = Path(folder, f"{library}_rope.py")
            file.write_text(CALLED.format(library=library))
            checked = [*POSENC, "rope-check", "-s", "rope", "--len", "4096"]
            commands = {
                "import": [sys.executable, "-c", f"import {library}"],
                "check": [*checked, "--impl", f"{file}:rope"],
            }
            times = paired(
                {each: partial(_run, command) for each, command in commands.items()},
                repetitions=sizes.process_rounds,
                clock=_processor_seconds,
            )
            yield row(times.ratio("check", "import"))


def _pictures(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the times of picture files, relative to an empty figure of matplotlib."""
    if not installed("matplotlib"):
        return
    empty, plain = "an empty figure", "the same heatmap by matplotlib alone"
    commands = {
        empty: [sys.executable, "-c", EMPTY_FIGURE],
        plain: [sys.executable, "-c", PLAIN_FIGURE],
        **{name: [*POSENC, *name.split()[1:]] for name in PICTURES},
    }
    with tempfile.TemporaryDirectory() as folder:
        times = paired(
            {name: partial(_run, command, folder) for name, command in commands.items()},
            repetitions=sizes.process_rounds,
            clock=_processor_seconds,
        )
    for name in (plain, *PICTURES):
        yield Measurement(name, empty, times.ratio(name, empty), goal=PICTURES.get(name))


def _processor_seconds() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    import resource

    taken = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken.ru_utime + taken.ru_stime


def memory(sizes: Sizes) -> Section:
    """Return the peak memory of ``posenc generate`` at several lengths, less that of NumPy."""
    how = (
        "An entry is the peak resident memory of `posenc generate --scheme rope --len …` (64 "
        "columns, float32), minus the peak of `python -c 'import numpy'`."
    )
    return Section("Memory", how, tuple(_peaks(sizes)))


def _peaks(sizes: Sizes) -> Iterator[Measurement]:
    row = partial(Measurement, against="import numpy", unit="MiB", dtype="float32")
    longest = sizes.memory_lengths[-1]
    for backend, length in (*(("numpy", each) for each in sizes.memory_lengths), ("fast", longest)):
        goal = next(goal for rows, goal in MEMORY_GOALS.items() if length <= rows)
        name = f"posenc {backend}, {length} rows"
        if sys.platform == "win32":
            yield row(name, spread=None, goal=goal, note="not measured on Windows")
        elif not registry.status(backend).available:
            yield row(name, spread=None, goal=goal, note="not available")
        else:
            command = generate(length, backend=backend)
            more = [_peak(command) - _peak(IMPORT_NUMPY) for _ in range(sizes.memory_runs)]
            yield row(name, spread=Spread.of(more), goal=goal)


def growth(sizes: Sizes) -> Section:
    """Return the time per row at several lengths, relative to the longest."""
    *shorter, longest = sizes.growth_lengths
    found: list[Measurement] = []
    for backend in registry.BUILT_IN:
        used = engine(backend)
        against = f"{longest} rows"
        if used is None:
            found.append(Measurement(f"posenc {backend}", against, None, note="not available"))
            continue
        draws: dict[int, Callable[[], object]] = {
            length: partial(Work(length, "float32", dim=64).draw, used)
            for length in sizes.growth_lengths
        }
        times = paired(
            {str(length): draw for length, draw in draws.items()}, repetitions=sizes.repetitions
        )
        for length in shorter:
            each = times.ratio(str(length), str(longest)).scaled(longest / length)
            name = f"posenc {backend}, {length} rows"
            found.append(Measurement(name, against, each, dtype="float32", threads=1))
    how = (
        "An entry is the time per row of 64 columns, including setup, divided by the time per row "
        "of the longest job. All jobs run in one process on one thread."
    )
    return Section("Growth with length", how, tuple(found))


def _environment() -> dict[str, str]:
    """Return the environment of a user who installed posenc: its modules are compiled."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("POSENC_") and name != "PYTHONDONTWRITEBYTECODE"
    }


def _run(command: Sequence[str], folder: str | None = None) -> None:
    subprocess.run(
        command,
        check=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )


def _peak(command: Sequence[str]) -> float:
    """Return the peak resident memory of a command in MiB."""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", PEAK, *command],
        check=True,
        capture_output=True,
        text=True,
        env=_environment(),
    )
    unit = 1 if sys.platform == "darwin" else 1024
    return int(ran.stdout) * unit / MEBIBYTE
