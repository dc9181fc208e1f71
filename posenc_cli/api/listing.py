"""The named schemes and models, and ALiBi's slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli import catalogue
from posenc_cli.api.arguments import in_arguments, plain_value
from posenc_cli.configs import library
from posenc_cli.formulas.alibi import SlopesRule, exact_slopes
from posenc_cli.formulas.declare import Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.library import Preset
    from posenc_cli.numerics.arrays import Reals


def schemes() -> Mapping[str, Scheme]:
    """Return all schemes by name, built in and installed, with formula, source and parameters.

    >>> rope = schemes()["rope"]
    >>> rope.kind, rope.parameters["base"].default
    ('rotary', 10000.0)
    """
    plugins = [plugin for plugin in catalogue.installed() if isinstance(plugin, Scheme)]
    return {**catalogue.BUILT_IN, **{scheme.name: scheme for scheme in plugins}}


def models() -> Mapping[str, Preset]:
    """Return all models by name: title, source, and the config with their encoding.

    >>> models()["gpt2"].config["n_positions"]
    1024
    """
    return {name: library.find(name) for name in library.names()}


@in_arguments
def alibi_slopes(heads: int, *, max_bias: float = 8.0, convention: SlopesRule = "press") -> Reals:
    """Return the slope of each head of ALiBi, correctly rounded to float64: (heads,).

    Raises: ValueError if an argument is wrong.

    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    declared = catalogue.BUILT_IN["alibi"].parameters
    count = declared["heads"].value(plain_value(heads))
    largest = declared["max_bias"].value(plain_value(max_bias))
    rule = declared["slopes"].value(convention)
    return np.array(exact_slopes(count, max_bias=largest, rule=rule))
