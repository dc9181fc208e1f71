"""Commands that write what an array was found to be again, ready to paste."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from posenc_cli.formulas.parameters import as_text, option_words
from posenc_cli.formulas.sinusoids import transformer_xl
from posenc_cli.inference.tolerance import real_format
from posenc_cli.inference.trial import UNREDUCED_TABLES
from posenc_cli.positions import FALLING_POSITIONS, Positions

if TYPE_CHECKING:
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Trial

_LISTED = 64
"""Ranges of positions that fit on a command line."""


def commands_of(trial: Trial, evidence: Evidence, positions: Positions | None) -> tuple[str, ...]:
    """Commands that write the array again, one for each file, ready to paste."""
    hypothesis, bound = trial.hypothesis, trial.bound
    if positions is None and hypothesis.positions is not None:
        return ()
    if hypothesis.tables == ("slopes",):
        return (_slopes_command(trial),)
    words = ["posenc", "generate", "--scheme", bound.scheme.name]
    length = None
    if positions is not None:
        given = _positions_words(trial, positions)
        if given is None:
            return _commands_of_sinusoids(trial, evidence, positions)
        words += given
        length = positions.length
    parameters = _parameter_words(trial, length)
    if parameters is None:
        return ()
    words += parameters
    if hypothesis.head is not None:
        words += ["--head", str(hypothesis.head)]
    return tuple(
        shlex.join(
            [*words, *_file_words(trial, evidence, table, several=len(hypothesis.tables) > 1)]
        )
        for table in hypothesis.tables
    )


def _commands_of_sinusoids(
    trial: Trial, evidence: Evidence, positions: Positions
) -> tuple[str, ...]:
    """The command of Transformer-XL's rows at offsets on one side: sinusoids count from them."""
    evenly = positions.progression is not None and positions.count <= FALLING_POSITIONS
    if trial.bound.scheme is not transformer_xl or not evenly:
        return ()
    assert positions.progression is not None
    first, step = positions.progression
    falling = Positions.evenly(-first, -step, positions.count)
    base, dim = trial.bound.params["base"], trial.bound.params["dim"]
    words = ["posenc", "generate", "--scheme", "sinusoidal", "--positions", str(falling)]
    words += ["--dim", str(dim), "--base", as_text(base), "--layout", "concat"]
    return (shlex.join([*words, *_file_words(trial, evidence, None, several=False)]),)


def _parameter_texts(trial: Trial, length: int | None) -> dict[str, str]:
    """The parameters that are not what they would be without, as a command line gives them.

    Those that a command needs are among them, whether the array shows them or not.
    """
    hypothesis, bound = trial.hypothesis, trial.bound
    texts: dict[str, str] = {}
    for name, parameter in bound.scheme.parameters.items():
        value = bound.params[name]
        follows = parameter.rules.follows_length and value == length
        usual = value == parameter.default and name not in ("dim", "base", "heads")
        hidden = name in hypothesis.hidden and not parameter.required
        if value is not None and not hidden and not follows and not usual:
            texts[name] = as_text(value, separator=parameter.rules.separator)
    return texts


def _parameter_words(trial: Trial, length: int | None) -> list[str] | None:
    """The options that give the parameters; None where they would not give these very ones."""
    hypothesis, bound = trial.hypothesis, trial.bound
    texts = _parameter_texts(trial, length)
    given = bound.scheme.bind(texts, seq_len=length).params
    if any(given[name] != bound.params[name] for name in given if name not in hypothesis.hidden):
        return None
    words = ["--set", "weights=FILE"] if "weights" in hypothesis.hidden else []
    for name, text in texts.items():
        words += option_words(name, text)
    return words


def _positions_words(trial: Trial, positions: Positions) -> list[str] | None:
    """The options that ask for positions, None where none can."""
    if trial.bound.scheme.kind == "relative":
        (only,) = positions.ranges if len(positions.ranges) == 1 else (None,)
        if only is None or only.step != 1 or only[0] != -only[-1]:
            return None
        return ["--len", str(only[-1] + 1)]
    if positions.step == positions.denominator:
        start = ["--start", positions.name(positions.first)] if positions.first else []
        return [*start, "--len", str(positions.count)]
    text = str(positions)
    return ["--positions", text] if text.count(",") < _LISTED else None


def _file_words(trial: Trial, evidence: Evidence, table: str | None, *, several: bool) -> list[str]:
    """The options of the table, its number format and its file."""
    dtype = real_format(evidence.stored).name
    table = "angles" if table in UNREDUCED_TABLES else table
    words = [] if table in (None, "cos-sin") else ["--table", table or ""]
    # The numbers of a text file are read as float64, whatever they were.
    if dtype == "float64" and trial.rounded.name == "float32":
        dtype = "float32"
    words += ["--dtype", dtype]
    if trial.rounded.name != dtype:
        words += ["--round-to", trial.rounded.name]
    if trial.arithmetic != "exact":
        words += ["--arithmetic", trial.arithmetic]
    if several:
        words += ["--out", f"{(table or '').partition('-')[0]}.npy"]
    elif dtype == "bfloat16":
        words += ["--out", f"{trial.bound.scheme.name}.safetensors"]
    return words


def _slopes_command(trial: Trial) -> str:
    params = trial.bound.params
    words = ["posenc", "alibi-slopes", "--heads", str(params["heads"])]
    if params["max_bias"] != 8:
        words += ["--max-bias", as_text(params["max_bias"])]
    if params["slopes"] != "press":
        words += ["--convention", params["slopes"]]
    return shlex.join(words)
