"""Tables as ports write them: what their mistakes are called, and of what numbers come."""

import math

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.positions import Positions
from posenc_cli.rotary.subject import table_subject
from tests.checks import rope

PLAIN = {"dim": 64}
DYNAMIC = {"dim": 64, "factor": 4, "max_position_embeddings": 512}
DEEPSEEK = {"dim": 64, "factor": 40, "mscale": 1, "mscale_all_dim": 1}
LONG = {
    "dim": 4,
    "short_factor": (1, 2),
    "long_factor": (1, 3),
    "factor": 32,
    "original_max_position_embeddings": 1024,
}


def ladder(dim, base=1e4):
    return base ** -(np.arange(0, dim, 2) / dim)


def tables(frequencies, rows=1024, scale=1.0, at=None):
    positions = np.arange(rows) if at is None else at
    angles = np.multiply.outer(positions, frequencies)
    return [scale * np.cos(angles), scale * np.sin(angles)]


def causes_of(pair, scheme="rope", *, rows=1024, **params):
    cos, sin = (part.astype(np.float32) for part in pair)
    length = {"seq_len": rows} if scheme in ("rope-dynamic", "rope-longrope") else {}
    reference = rope.reference(scheme, **params, **length)
    return diagnose(rope.of_tables(cos, sin, reference, f"0:{rows}"))


LENGTHS = np.maximum(np.arange(1, 1025), 512)[:, None]
OWN_BASES = 1e4 * (4 * LENGTHS / 512 - 3) ** (64 / 62)

WRONG = {
    "bases of their own lengths": (
        [
            part(np.arange(1024)[:, None] * OWN_BASES ** -(np.arange(32) / 32))
            for part in (np.cos, np.sin)
        ],
        ("rope-dynamic", DYNAMIC),
        ("frequency-rule", "past position 511 each row uses the base of its own length, m + 1"),
    ),
    "dynamic without its last term, as which factor 7 gives": (
        tables(ladder(64, 1e4 * (4 * 2) ** (64 / 62))),
        ("rope-dynamic", DYNAMIC),
        ("frequency-rule", "or by the factor 7"),
    ),
    "dynamic of another length": (
        tables(ladder(64, 1e4 * (4 * 700 / 512 - 3) ** (64 / 62))),
        ("rope-dynamic", DYNAMIC),
        ("frequency-rule", "the base is scaled for a length of 700"),
    ),
    "a base in bfloat16": (
        tables(ladder(64, 499712.0)),
        ("rope", {**PLAIN, "base": 500000.0}),
        ("base", "the base is 499712, not 500000"),
    ),
    "a logarithm in float16": (
        tables(ladder(64, math.exp(float(np.float16(math.log(1e4)))))),
        ("rope", PLAIN),
        ("base", "the base is 10005.97, not 10000"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_mistake_is_named(name):
    pair, (scheme, params), (cause, message) = WRONG[name]
    first = causes_of(pair, scheme, **params)[0]
    assert (str(first.cause), message in first.message) == (cause, True), first


@pytest.mark.long
def test_a_number_that_changes_the_amplitude_is_no_reason_where_the_amplitude_is_right():
    """With the original context of 4096 LongRoPE's attention factor would be 1."""
    short, long = 1 + np.arange(16) / 20, 1 + np.arange(16) / 2
    params = {
        "dim": 32,
        "short_factor": tuple(short.tolist()),
        "long_factor": tuple(long.tolist()),
        "original_max_position_embeddings": 128,
        "max_position_embeddings": 512,
    }
    wrong = tables(ladder(32) / short, 512)
    scale = math.sqrt(1 + math.log(512 / 128) / math.log(128))
    (cause,) = causes_of([scale * part for part in wrong], "rope-longrope", rows=512, **params)
    assert cause.text == "frequency-rule: short_factor is applied at this length"
    first, _ = causes_of(wrong, "rope-longrope", rows=512, **params)
    assert "original_max_position_embeddings is 4096, not 128" in first.text


@pytest.mark.parametrize("repeats", [1, 2])
def test_tables_of_a_whole_head_are_right_where_the_other_columns_stay(repeats):
    reference = rope.reference("rope", dim=80, partial=0.4, layout="half")
    cos, sin = (np.tile(part, (1, repeats)) for part in tables(ladder(32), rows=300))
    beside = 24 * repeats
    cos = np.hstack([cos, np.ones((300, beside))]).astype(np.float32)
    sin = np.hstack([sin, np.zeros((300, beside))]).astype(np.float32)
    checked = rope.of_tables(cos, sin, reference, "0:300")
    assert checked.ok
    note = f"the last {beside} columns have cosine 1 and sine 0: they do not rotate"
    subject = table_subject(cos, sin, "float32", reference, Positions.parse("0:300"))
    assert note in subject.notes
    sin[299, -1] = 1e-3
    assert not rope.of_tables(cos, sin, reference, "0:300").ok


def test_columns_that_turn_are_told_where_others_stay():
    reference = rope.reference("rope", dim=96, partial=0.25, layout="half")
    cos, sin = (np.tile(part, (1, 2)) for part in tables(ladder(24), rows=300))
    cos = np.hstack([np.ones((300, 72)), cos]).astype(np.float32)
    sin = np.hstack([np.zeros((300, 72)), sin]).astype(np.float32)
    (cause,) = diagnose(rope.of_tables(cos, sin, reference, "0:300"))
    assert cause.cause == "rotary-dim"
    assert cause.message.startswith("the tables rotate ")
