"""The machinery of declarations: binding, parsing, bounds, did-you-mean."""

import re
from typing import Annotated, Literal

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Rows, absolute
from posenc_cli.formulas.parameters import Dim, Param, SequenceLength
from posenc_cli.inference.candidates import schemes_of


@absolute(source="a test", formula="0")
def sample(
    *,
    dim: Dim = 4,
    factor: Annotated[float, Param("a factor", above=0)],
    steps: Annotated[int, Param("steps", minimum=1, maximum=9)] = 3,
    mode: Annotated[Literal["slow", "fast"], Param("how")] = "slow",
    truncate: Annotated[bool, Param("whether")] = True,
    seq_len: SequenceLength = None,
) -> Rows:
    """Nothing at all.

    Only to be bound.

    >>> 1 + 1
    2
    """
    return Rows(dim, lambda xp, positions, _: xp.zeros((len(positions), dim)))


def bound(**given):
    return sample.bind({"factor": 2.0, **given}, seq_len=7).params


def test_texts_become_the_types_of_the_signature():
    given = {"dim": "8", "factor": "1e2", "steps": "+6", "mode": "fast", "truncate": "False"}
    assert bound(**given) == {
        "dim": 8,
        "factor": 100.0,
        "steps": 6,
        "mode": "fast",
        "truncate": False,
        "seq_len": 7,
    }


def test_defaults_apply_and_length_follows_the_positions():
    assert bound() == {
        "dim": 4,
        "factor": 2.0,
        "steps": 3,
        "mode": "slow",
        "truncate": True,
        "seq_len": 7,
    }
    assert bound(seq_len="12")["seq_len"] == 12


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dim": "0"}, "--dim 0: must be from 1 to 65536"),
        ({"dim": "4.0"}, "--dim '4.0': must be an integer"),
        ({"dim": "4__096"}, "--dim '4__096': must be an integer"),
        ({"dim": 4.5}, "--dim '4.5': must be an integer"),
        ({"dim": True}, "--dim 'True': must be an integer"),
        ({"factor": "0"}, "--set factor 0: must be above 0"),
        ({"factor": "nan"}, "--set factor 'nan': must be a number"),
        ({"factor": "1e999"}, "--set factor '1e999': must be a finite number"),
        ({"factor": float("nan")}, "--set factor 'nan': must be a finite number"),
        ({"factor": "0x10"}, "--set factor '0x10': must be a number"),
        ({"steps": "10"}, "--set steps 10: must be from 1 to 9"),
        ({"mode": "quick"}, "--set mode 'quick': must be one of slow, fast"),
        ({"truncate": "yes"}, "--set truncate 'yes': must be true or false"),
        ({"rate": "1"}, "--set rate: sample has no parameter 'rate'"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_name_value_and_rule(given, message):
    with pytest.raises(InvalidInput) as raised:
        bound(**given)
    assert raised.value.message.startswith(message)


def test_near_names_are_suggested():
    with pytest.raises(InvalidInput) as raised:
        bound(truncat="true")
    assert raised.value.hint == "did you mean 'truncate'?"
    with pytest.raises(InvalidInput) as raised:
        bound(mode="fats")
    assert raised.value.hint == "did you mean 'fast'?"


def test_a_parameter_without_default_must_be_given():
    with pytest.raises(InvalidInput, match="sample needs --set factor"):
        sample.bind({})


def test_the_docstring_documents_the_scheme_without_its_doctests():
    assert (sample.name, sample.summary) == ("sample", "Nothing at all.")
    assert sample.description == "Only to be bound."


LISTS = {"short_factor": "1,1.5,2,3", "long_factor": "1,2,4,8"}
WITNESS = re.compile(
    r"[\w.-]+/[\w.-]+(#\d+|@[\da-f]{7})|[\w-]+ \d+\.\d+\.\d+|.*arXiv:\d{4}\.\d{5}.*"
)
"""An issue, a pull request or a commit on GitHub, a release of a library, or a paper."""


@pytest.mark.parametrize("name", [one.name for one in schemes_of("rotary") if one.mistakes])
def test_each_mistake_of_a_scheme_says_where_somebody_made_it(name):
    scheme = catalogue.find(name)
    given = {"dim": 8, **(LISTS if name == "rope-longrope" else {})}
    if name == "mrope":
        given["sections"] = "1,1,2"
    mistakes = list(scheme.mistakes(np, scheme.bind(given, seq_len=1 << 14).params))
    assert mistakes
    assert all(WITNESS.fullmatch(mistake.seen) for mistake in mistakes)
    assert len({mistake.message for mistake in mistakes}) == len(mistakes)
