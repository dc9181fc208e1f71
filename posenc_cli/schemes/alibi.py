"""ALiBi: a penalty on the scores that grows linearly with distance, each head at its own slope."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from posenc_cli.schemes.declare import Bias, bias, within_length
from posenc_cli.schemes.parameters import Heads, Param, SequenceLength

SlopesRule = Literal["press", "naive"]
MaxBias = Annotated[
    float,
    Param(
        "exponent of the last slope: 2^−max_bias",
        above=0,
        maximum=1024,
        source="Press et al. 2021 §3",
    ),
]
Convention = Annotated[
    SlopesRule,
    Param(
        "press: the authors' rule, which MPT and BLOOM share (a number of heads that is no power "
        "of two borrows from the next); naive: 2^(−max_bias·h/heads) for any number of heads",
        source="Press et al. 2021, the authors' code",
    ),
]


@bias(
    source="Press et al. 2021, arXiv:2108.12409 §3; the authors' code for other head counts",
    formula=(
        "symmetric: −m_h · |i − j|; mpt: m_h · (j − (seq_len − 1)); bloom: m_h · j; "
        "m_h = 2^(−max_bias·h/heads) for h = 1 … heads, a power of two"
    ),
    convention=(
        "The forms differ by a constant in each row of a causal score matrix, which the softmax "
        "removes. Falcon uses bloom, in bfloat16 and divided by √head_dim."
    ),
)
def alibi(
    *,
    heads: Heads = 8,
    max_bias: MaxBias = 8.0,
    slopes: Convention = "press",
    form: Annotated[
        Literal["symmetric", "mpt", "bloom"],
        Param("how the penalty is written: see the formula", source="Press et al. 2021 §3"),
    ] = "symmetric",
    seq_len: SequenceLength = None,
) -> Bias:
    """Attention with linear biases: nearer keys score higher, without any embedding."""
    last = (seq_len or 1) - 1

    def ladder(xp: Any) -> Any:
        return slopes_of_heads(xp, heads, max_bias=max_bias, rule=slopes)

    def scores(xp: Any, slope: Any, indices: Any) -> Any:
        if form == "symmetric":
            return slope * (0 - xp.abs(indices))
        return slope * (indices - last if form == "mpt" else indices)

    return Bias(
        heads,
        "offset" if form == "symmetric" else "key",
        ladder,
        scores,
        capacity=within_length(seq_len) if form == "mpt" else None,
    )


def slopes_of_heads(xp: Any, heads: int, *, max_bias: float, rule: SlopesRule) -> Any:
    """One slope a head.

    The authors' rule for a number of heads that is no power of two: the slopes of the largest
    power of two below it, then every other slope of twice that power.

    >>> from posenc_cli.numerics import exact
    >>> [float(m) for m in slopes_of_heads(exact, 3, max_bias=8.0, rule="press")]
    [0.0625, 0.00390625, 0.25]
    """
    power = 1 << (heads.bit_length() - 1)
    if rule == "naive" or power == heads:
        return _geometric(xp, heads, heads, 1, max_bias)
    return xp.concat(
        [
            _geometric(xp, power, power, 1, max_bias),
            _geometric(xp, heads - power, 2 * power, 2, max_bias),
        ]
    )


def _geometric(xp: Any, count: int, heads: int, step: int, max_bias: float) -> Any:
    """2^(−max_bias·h/heads) for h = 1, 1 + step, … (``count`` of them)."""
    return 2 ** (-max_bias * xp.arange(1, 1 + count * step, step) / heads)
