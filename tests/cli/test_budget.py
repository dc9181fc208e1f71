"""However much is asked for, a command refuses, or takes a sample and says so, at little cost."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes import spawn

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="counts memory as Linux does"
)

MILLION, BILLION, LAST = "1000000", "1000000000", str(2**53)

# A command line, and how it may end: refused (2), or done (0) with a sample that is said to be one.
REFUSED, SAMPLE, WHOLE, NO_DISK = "refused", "sample", "whole", "no disk"
TABLE = [
    *(
        (f"{command} {size}", REFUSED)
        for size in (MILLION, LAST)
        for command in (
            "order-check -s rope --len",
            "order-check --tokens",
            "alibi-slopes --heads",
            "heatmap -s alibi -l 8 --heads",
            "heatmap -s rope -l 8 --dim",
            "heatmap -s rope -l 8 --width",
            "heatmap -s rope -l 8 --height",
            "heatmap -s rope -l 8 --out x.png --height 10000 --width",
            "heatmap -s rope -l 8 --out x.png --dpi",
            "spectrum -s rope --dim",
            "dot-similarity -s sinusoidal -l 8 --dim",
            "order-check -s sinusoidal --dim",
            "heads -s rope --train",
            "heads -s rope --test",
            "heads -s sinusoidal --dim",
            "emit -s rope --out x --len",
            "emit -s t5 --out x --heads",
            "emit -s sinusoidal --out x --dim",
            "extrapolate --train",
            "extrapolate --test",
            "extrapolate --randomize",
            "extrapolate --batch",
            "extrapolate --seeds",
        )
    ),
    *(
        (f"inspect -s {scheme} --len {BILLION}", REFUSED)
        for scheme in ("rope", "alibi", "transformer-xl", "integer")
    ),
    *((f"plan -m llama-2-7b --to {size}", REFUSED) for size in (BILLION, LAST)),
    (f"plan -m llama-2-7b --to {MILLION}", WHOLE),
    ("inspect -s alibi --heads 65536", REFUSED),
    ("emit -s rope --dim 65536 --out x", REFUSED),
    ("emit -s rope-axial --set grid=100000x100000 --out x", WHOLE),
    ("inspect -s sinusoidal --dim 65536 --len 8", REFUSED),
    ("inspect -s swin --set window_size=1000x1000", WHOLE),
    ("inspect -s sinusoidal-nd --set grid=100000x100000 --len 1000000000", REFUSED),
    (f"inspect -s rope --len {MILLION}", WHOLE),
    ("inspect -s integer -d 8 --len 1000000", SAMPLE),
    ("heads -s sinusoidal --dim 16384 --test 8192", REFUSED),
    ("heads -s sinusoidal --dim 2048 --train 200 --target same:8 --test 400", REFUSED),
    ("heads -s rope --train 512 --test 32768", WHOLE),
    ("heads -s rope -s alibi -s t5 --train 1024", REFUSED),
    ("heads -s t5 --set num_buckets=4096 --set max_distance=1000000", WHOLE),
    *((f"extrapolate --steps {size}", REFUSED) for size in (BILLION, LAST)),
    ("extrapolate --size 16x64x65536", REFUSED),
    ("extrapolate --size 1x64x256", REFUSED),
    ("extrapolate -s rope --train 1000 --batch 64", REFUSED),
    ("extrapolate -s rope --seeds 1000 --batch 1024", REFUSED),
    ("extrapolate -s t5 --set num_buckets=1000000 --set max_distance=10000000", REFUSED),
    ("extrapolate -s swin --set window_size=1000x1000", REFUSED),
    ("curve -s deberta --table buckets --positions -1000000:1000000", REFUSED),
    *((f"compare rope sinusoidal --len {size}", REFUSED) for size in (BILLION, LAST)),
    ("curve -s t5 --table buckets --positions -1000000000000:1000000000000", REFUSED),
    (f"curve -s t5 --table buckets --positions -{LAST}:{LAST}", REFUSED),
    ("order-check -s sinusoidal --dim 65536", REFUSED),
    ("order-check -s sandwich --dim 65536", REFUSED),
    ("order-check -s sinusoidal+rope --dim 16384", REFUSED),
    ("order-check -s transformer-xl --dim 16384", REFUSED),
    ("order-check -s alibi --heads 65536", REFUSED),
    ("order-check -s alibi --heads 1024 --len 512", REFUSED),
    ("order-check --tokens " + "9" * 5000, REFUSED),
    ("heatmap -s alibi --heads 65536 -l 16", REFUSED),
    ("heatmap -s rope-axial --set grid=14x14 --dim 65536", REFUSED),
    ("heatmap -s alibi -l 1000000 --json --width 65535 --height 65535", REFUSED),
    ("spectrum -s xpos --dim 65536", REFUSED),
    ("alibi-slopes --heads 65536", REFUSED),
    *(
        (f"{command} --len {size}", SAMPLE)
        for size in (MILLION, LAST)
        for command in (
            "heatmap -s sinusoidal -d 16",
            "heatmap -s rope -d 16 --json",
            "heatmap -s alibi",
            "curve -s rope -d 16",
            "curve -s alibi --heads 4",
            "rotation -s rope -d 16",
            "dot-similarity -s rope -d 2",
        )
    ),
    *((f"spectrum -s transformer-xl -d 2 --len {size}", WHOLE) for size in (MILLION, LAST)),
    (f"spectrum -s mrope -d 128 --len {LAST}", WHOLE),
    ("heatmap -s t5 --json --len 1000000", SAMPLE),
    ("heatmap -s alibi --softmax --len 8192 --head 0", SAMPLE),
    ("compare sinusoidal integer --len 100000 --plot --tol 1e9", SAMPLE),
    ("rotation -s rope --dim 512 --pairs 0:256", REFUSED),
    ("dot-similarity -s transformer-xl -d 2 --len 1000000000", SAMPLE),
    ("dot-similarity -s shaw -d 8 --set max_distance=1000000000 --len 1000000000", SAMPLE),
    ("heatmap -s sinusoidal-nd --set grid=1000000x1000000", SAMPLE),
    ("heatmap -s rope-axial --set grid=1000000x1000000", SAMPLE),
    *(
        (f"{command} --set window_size=32768 --len {2**30}", bound)
        for command, bound in (
            ("heatmap -s swin", SAMPLE),
            ("heatmap -s swin-v2 --heads 2", SAMPLE),
            ("curve -s swin-v2 --heads 2", SAMPLE),
            ("dot-similarity -s swin", REFUSED),
            ("generate -s swin --out x.npy", NO_DISK),
        )
    ),
    ("heatmap -s swin-v2 --heads 65536 --head 0 --set hidden=65536 -l 4", REFUSED),
    *(
        (f"{command} --len {LAST}", REFUSED)
        for command in (
            "rope-check -s rope",
            "rope-check -s sinusoidal",
            "compare rope rope-linear --set factor=2",
            "compare sinusoidal sinusoidal",
            "compare sinusoidal sinusoidal --plot",
            "heatmap -s alibi --softmax",
            "dot-similarity -s alibi --set form=bloom",
        )
    ),
    ("dot-similarity -s rope --positions 0:1000000000,5:1000000000:2", REFUSED),
    ("heatmap -s rope --positions 0:1000000000,5:1000000000:2", SAMPLE),
    # What generate and --out write is bounded by the disk alone.
    (f"generate -s rope --len {LAST} --out x.npy", NO_DISK),
    (f"generate -s alibi --len {BILLION} --out x.npy", NO_DISK),
    (f"dot-similarity -s rope --len {BILLION} --out x.npy", NO_DISK),
    (f"apply -s rope --seed 0 --len {LAST} --out x.npy", NO_DISK),
    (f"apply -s sinusoidal --seed 0 --len {BILLION} --json --out x.npz", NO_DISK),
    (f"resize table.npy --len {LAST} --out x.npy", NO_DISK),
    ("resize table.npy --grid 2x3:999999999x999999999 --out x.npy", NO_DISK),
    ("resize table.npy --grid 2x3:999999999x999999999 --json --out x.npz", NO_DISK),
    ("heatmap --in stack.npy", SAMPLE),
    ("heatmap --in stack.npy --json", SAMPLE),
    ("heatmap --in stack.npy --out stack.svg -q", WHOLE),
]


LONG = {
    f"spectrum -s transformer-xl -d 2 --len {LAST}",
    "alibi-slopes --heads 65536",
    "heads -s sinusoidal --dim 2048 --train 200 --target same:8 --test 400",
    "heads -s rope --train 512 --test 32768",
    "heatmap -s t5 --json --len 1000000",
    "dot-similarity -s shaw -d 8 --set max_distance=1000000000 --len 1000000000",
    "heatmap --in stack.npy --out stack.svg -q",
    f"inspect -s rope --len {MILLION}",
    "inspect -s integer -d 8 --len 1000000",
}
"""Those that compute a sample for a second or more."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """How a command line ends, by a process that runs one after another under bounds."""
    folder = tmp_path_factory.mktemp("huge")
    np.save(folder / "table.npy", np.ones((6, 2)))
    np.save(folder / "stack.npy", np.arange(373_248 * 2, dtype="f4").reshape(-1, 1, 2))
    with spawn(
        [sys.executable, str(Path(__file__).with_name("huge.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:

        def run(line):
            process.stdin.write(json.dumps(line.split()) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@pytest.mark.long
@pytest.mark.sweep(99)
@pytest.mark.parametrize(
    ("line", "ending"),
    [
        pytest.param(line, ending, marks=pytest.mark.slow if line in LONG else ())
        for line, ending in TABLE
    ],
)
def test_what_is_too_much_is_refused_or_sampled(line, ending, ended):
    told = ended(line)
    said = told["out"] + told["err"]
    assert told["status"] == {REFUSED: 2, NO_DISK: 3}.get(ending, 0), said[-500:]
    if ending == NO_DISK:
        assert re.search(
            r"it takes at least [0-9]+\.[0-9] GiB, the disk has [0-9]+\.[0-9] GiB free", told["err"]
        )
    if ending == REFUSED:
        assert told["out"] == ""
        assert re.fullmatch(r"posenc: error: .+\n(hint: .+\n)?", told["err"])
        # What was asked, its size or the rule, and the most that is taken.
        assert re.search(r"at most|must be from [0-9]+ to [0-9]+", told["err"]), told["err"]
    elif ending == SAMPLE:
        assert told["sampled"], said[-500:]


@pytest.mark.parametrize(
    ("command", "config", "named"),
    [
        ("spectrum", {"head_dim": 32768}, "dim=32768 of rope: 32768 columns of waves"),
        ("order-check", {"head_dim": 32768}, "dim=32768: 32768 columns"),
        ("heatmap -l 16", {"model_type": "bloom", "n_head": 8192}, "heads=8192 of alibi: "),
        ("spectrum -s rope-axial --set grid=100000x100000", None, "the grid: 10000000000 places"),
    ],
)
def test_what_is_refused_is_named_by_no_option_that_nobody_typed(
    command, config, named, call, tmp_path
):
    words = command.split()
    if config is not None:
        llama = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1}
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**llama, "rope_theta": 1e4, **config}))
        words += ["--config", str(path)]
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert f"error: {named}" in err
