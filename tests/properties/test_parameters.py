"""Parameters at the ends of their ranges: every scheme × table × format × arithmetic × command.

What is tried derives from the declarations: the bounds of each parameter, the choices, and the
numbers at which floats and integers end. A scheme that is declared tomorrow is tried tomorrow.
"""

import contextlib
import io
import itertools
import json
import math
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.cli.commands.dot_similarity import CONTENTS
from posenc_cli.cli.exits import main
from posenc_cli.formulas.buckets import RULES
from posenc_cli.formulas.parameters import OWN_OPTIONS
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics.dtypes import REAL_DTYPES
from tests.examples import examples

pytestmark = pytest.mark.usefixtures("kept_applications")

FLOATS = [
    5e-324,
    1e-308,
    sys.float_info.min,
    1e-16,
    0.1 + 0.2,
    1 - 2**-53,
    1 + 2**-52,
    1e15,
    1e300,
    sys.float_info.max,
]
INTEGERS = [0, 1, 2, 3, 4, 5, 64, 129, 65536, 10**6, 2**31, 2**53, 2**63, 2**64, 10**30]
LARGEST_SIZE = 1024
"""Of numbers of columns, heads or rows, but in the sweep: what is larger takes its time."""
SIZES = range(LARGEST_SIZE + 1, 1 << 21)
LENGTHS = [1, 2, 3, 4, 32]
"""Of lists: what conventions ask for, and what no default has."""

POSITIONS = [
    ("--len", "1"),
    ("--len", "5"),
    ("--len", "64"),
    ("--positions", "0:9007199254740992:1125899906842624"),
    ("--positions", f"{2**53 - 2}:{2**53 + 1}"),
]
CHECKS = ("rope-check", "order-check", "compare")
SECONDS = 60  # of the processor, and no measure of speed: a run that takes so long does not end
BYTES = 3 << 30  # what a run may allocate; the largest table that is asked for has 0.3 GB

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 2,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
}
SPECTRUM = ["spectrum", "--config", "config.json"]
ANGLES = ["generate", "--config", "config.json", "-l", "9", "--table=angles", "-o", "t.npy"]


def kept(rules, value):
    return (
        (rules.minimum is None or value >= rules.minimum)
        and (rules.maximum is None or value <= rules.maximum)
        and (rules.above is None or value > rules.above)
    )


def values(parameter):
    """What a parameter takes, at the ends of its range."""
    rules = parameter.rules
    if parameter.choices:
        return list(parameter.choices)
    if parameter.type is bool:
        return ["true", "false"]
    if rules.is_file or parameter.type is str:
        return []
    ends = [bound for bound in (rules.minimum, rules.maximum) if bound is not None]
    if parameter.type is float:
        tried = [*FLOATS, *ends]
        if rules.above is not None:
            tried.append(math.nextafter(rules.above, math.inf))
    else:
        tried = [*INTEGERS, *(int(end) + step for end in ends for step in (-1, 0, 1))]
    texts = [repr(value) for value in dict.fromkeys(tried) if kept(rules, value)]
    if not parameter.is_list:
        return texts
    return [rules.separator.join([text] * length) for text in texts for length in LENGTHS]


def option(name, value):
    own = OWN_OPTIONS.get(name)
    return (f"{own[0]}={value}",) if own else ("--set", f"{name}={value}")


NEEDED = {"short_factor": "1,2", "long_factor": "1,4", "dim": "4"}
"""What a scheme must be given beside its defaults."""


def quick(parameter):
    """The values of a parameter, of an integer without those that may be sizes and large."""
    texts = values(parameter)
    if parameter.type is not int:
        return texts
    parts = {text: text.split(parameter.rules.separator)[0] for text in texts}
    return [text for text in texts if int(parts[text]) not in SIZES]


@st.composite
def settings_of(draw, parameters, tried):
    """Some parameters, each at an end of its range, as options."""
    known = {name: tried(each) for name, each in parameters.items()}
    chosen = draw(
        st.lists(
            st.sampled_from([name for name, tried in known.items() if tried]),
            unique=True,
            max_size=3,
        )
    )
    given = {}
    if any(each.required for each in parameters.values()):
        given = {name: text for name, text in NEEDED.items() if name in known}
    given |= {name: draw(st.sampled_from(known[name])) for name in chosen}
    return [word for name, value in given.items() for word in option(name, value)]


@st.composite
def commands(draw, tried=quick, backends=("auto",)):
    """A command line that looks at a scheme or writes it."""
    command = draw(
        st.sampled_from(
            ["generate", "spectrum", "heatmap", "dot-similarity", "rope-check", "order-check"] * 2
            + ["alibi-slopes", "buckets", "inspect", "inspect"]
            + ["curve", "rotation", "apply", "emit"]
        )
    )
    if command == "alibi-slopes":
        parameters = BUILT_IN["alibi"].parameters
        heads, bias = (draw(st.sampled_from(tried(parameters[n]))) for n in ("heads", "max_bias"))
        return [command, "--heads", heads, "--max-bias", bias, "--format", "json"]
    if command == "buckets":
        rule = RULES[draw(st.sampled_from(list(RULES)))]
        asked = draw(settings_of(rule.parameters, tried))
        return ["curve", "-s", rule.name, *asked, "--table", "buckets", "--json"]
    scheme = BUILT_IN[draw(st.sampled_from(list(BUILT_IN)))]
    words = [command, "--scheme", scheme.name, *draw(settings_of(scheme.parameters, tried))]
    if command == "generate":
        words += draw(st.sampled_from(POSITIONS))
        words += ["--dtype", draw(st.sampled_from(list(REAL_DTYPES)))]
        words += [
            "--arithmetic",
            draw(st.sampled_from(["exact", "float64", "float32", "bfloat16"])),
        ]
        if scheme.kind == "rotary":
            words += ["--table", draw(st.sampled_from(list(ROTARY_TABLES)))]
        return [*words, "--out", "table.safetensors"]
    if command == "order-check":
        return [*words, "--len", "6"]
    words += draw(st.sampled_from(POSITIONS))
    if command == "apply":
        words += ["--seed", "0", "--out", "y.npz"]
    if command == "emit":
        words += ["--out", "pack"]
    if command == "dot-similarity":
        words += ["--content", draw(st.sampled_from(CONTENTS))] if scheme.kind == "rotary" else []
    if command != "heatmap" and draw(st.booleans()):
        words.append("--json")
    return words


@st.composite
def configs(draw):
    """A config with a rule for RoPE whose numbers are at the ends of their ranges."""
    names = [name for name in BUILT_IN if name.startswith("rope-")]
    scheme = BUILT_IN[draw(st.sampled_from(names))]
    rope = {"rope_type": scheme.name.removeprefix("rope-")}
    for name, parameter in scheme.parameters.items():
        if parameter.type in (int, float) and name not in ("dim", "base", "seq_len"):
            text = draw(st.sampled_from(values(parameter)))
            numbers = [parameter.type(part) for part in text.split(parameter.rules.separator)]
            rope[name] = numbers * (16 // len(numbers)) if parameter.is_list else numbers[0]
    config = CONFIG | {"rope_scaling": rope}
    config["rope_theta"] = draw(st.sampled_from([10000.0, 1 + 2**-52, 5e-324, 1e308]))
    command = draw(
        st.sampled_from(
            [
                ["explain", "config.json"],
                ["explain", "config.json", "--json"],
                ["generate", "--config", "config.json", "-l", "9", "--out", "table.npy"],
                [
                    "generate",
                    "--config",
                    "config.json",
                    "--table",
                    "angles",
                    "-l",
                    "9",
                    "-o",
                    "t.npy",
                ],
                ["spectrum", "--config", "config.json"],
                ["rope-check", "--config", "config.json", "--len", "30"],
                ["explain", "config.json", "--as", "vllm"],
                ["compare", "config.json", "rope"],
            ]
        )
    )
    return config, command


class EndlessRun(BaseException):
    """A run that was stopped: no handler of posenc's takes it for a failure of its own."""


@contextlib.contextmanager
def bounded_run():
    """Within it, time and memory are bounded, as far as this platform can."""

    def stop(*_):
        raise EndlessRun

    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def ran(words, folder):
    """Status, stdout and stderr of a command in a folder, which is emptied afterwards."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        bounded_run(),
    ):
        status = main(words)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return status, *texts


def check_run(words, folder):
    """A run ends with a status of its own, in one line where it is refused."""
    status, out, err = ran(words, folder)
    asked = " ".join(words)
    assert status in (0, 2, 3) or (status == 1 and words[0] in CHECKS), (asked, status, err)
    lines = [line for line in err.splitlines() if not line.startswith("posenc: warning: ")]
    assert not any(".py" in line or "Warning" in line for line in lines), (asked, err)
    if status in (2, 3):
        assert lines[0].startswith("posenc: error: "), (asked, err)
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), (asked, err)
    elif "--json" in words:
        json.loads(out, parse_constant=lambda name: pytest.fail(f"{asked}: {name} is not JSON"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parameters")


FOUND = """
generate -s rope-linear --set factor=5e-324 -l 5 --table angles -o t.npy
generate -s rope-yarn --set factor=5e-324 -l 5 --table angles -o t.npy
spectrum -s rope-linear --set factor=5e-324 --json
spectrum -s rope-linear --set factor=1e-308
rope-check -s rope-llama3 --set factor=5e-324 --len 30
rope-check -s rope-yarn --set attention_factor=5e-324 --len 30
generate -s xpos -l 5 --table complex -o t.npy
generate -s xpos --set scale_base=5e-324 -l 5 -o t.npy
order-check -s xpos --set scale_base=0.001
order-check -s xpos --set scale_base=5e-324
spectrum -s xpos --set scale_base=5e-324
dot-similarity -s xpos --set scale_base=5e-324 -l 9 --json
dot-similarity -s sinusoidal --dim 1 --set odd=pad -l 5
inspect -s sinusoidal --dim 1 --set odd=pad -l 5
heatmap -s sinusoidal --dim 1 --set odd=pad -l 5
curve -s sinusoidal --dim 1 --set odd=pad -l 5
emit -s rope-proportional --set factor=1e-8 --dim 8 -o pack
emit -s sinusoidal --dim 2 --base=1.7976931348623157e+308 --len 1 -o pack
rotation -s xpos --set scale_base=5e-324 --len 1
emit -s t5-clipped --heads 65535 --len 1 -o pack
emit -s sandwich --heads 256 --dim 4096 --base 1e308 --set convention=nemo --len 1 -o pack
spectrum -s rope --base 1e300 --out x.png
"""
"""What this property found, once each: status 70, a warning of NumPy's, or no end."""


@pytest.mark.sweep(4)
@pytest.mark.parametrize("line", FOUND.strip().splitlines())
def test_what_was_found_is_mended(line, folder):
    check_run(line.split(), folder)


@examples(400)
@given(words=commands())
def test_parameters_at_the_ends_of_their_ranges(words, folder):
    check_run(words, folder)


def ends_alone():
    """Every parameter of every scheme at each of its ends, the others at their defaults."""
    for scheme in BUILT_IN.values():
        needed = any(each.required for each in scheme.parameters.values())
        given = {name: NEEDED[name] for name in NEEDED if needed and name in scheme.parameters}
        for name, parameter in scheme.parameters.items():
            for value in quick(parameter):
                settled = given | {name: value}
                yield scheme, [word for each in settled.items() for word in option(*each)]


@pytest.mark.slow
def test_every_end_of_every_parameter_alone(folder):
    commands_in_turn = itertools.cycle(
        [
            ["generate", "--len", "5", "--out", "t.npy"],
            ["spectrum", "--json"],
            ["heatmap", "--len", "9"],
            ["dot-similarity", "--len", "9", "--json"],
            ["rope-check", "--len", "30"],
            ["order-check", "--len", "6"],
            ["generate", "--len", "5", "--dtype", "float64", "--out", "t.npz"],
        ]
    )
    for scheme, options in ends_alone():
        command, *rest = next(commands_in_turn)
        check_run([command, "--scheme", scheme.name, *options, *rest], folder)


@pytest.mark.slow
@examples(400)
@given(words=commands(tried=values, backends=("auto", "torch")))
def test_any_size_of_parameters(words, folder):
    check_run(words, folder)


@pytest.mark.parametrize("words", [SPECTRUM, ANGLES])
@pytest.mark.parametrize("rule", ["linear", "dynamic"])
def test_a_config_with_the_smallest_factor_is_mended(rule, words, folder):
    config = CONFIG | {"rope_scaling": {"rope_type": rule, "factor": 5e-324}}
    (folder / "config.json").write_text(json.dumps(config))
    check_run(words, folder)


@examples(200)
@given(asked=configs())
def test_configs_at_the_ends_of_their_ranges(asked, folder):
    config, words = asked
    (folder / "config.json").write_text(json.dumps(config))
    check_run(words, folder)
