"""``posenc.plan``: plans from Python."""

import pytest

import posenc_cli as posenc


@pytest.fixture(scope="module")
def report():
    return posenc.plan("llama-2-7b", 8192, bases=2, require=["yarn.unseen<=0", "context>=8192"])


def test_a_report_has_recipes_and_judgements(report):
    assert [judgement.ok for judgement in report.judgements] == [True, False]
    assert not report.ok
    assert report["linear"].params["factor"] == 2.0
    with pytest.raises(KeyError):
        report["longrope"]


def test_a_report_is_what_the_command_prints(report):
    assert report.as_json()["schema"] == "posenc/plan/1"
    assert report.as_json()["ok"] is False
    assert "llama: set yarn, factor 2, for 8192 positions" in str(report)


def test_configs_are_taken_as_dicts_and_objects_and_parameters_replace_theirs():
    config = {"model_type": "gpt2", "n_positions": 64}

    class Config:
        def to_dict(self):
            return config

    assert posenc.plan(config, 64).plan.fits
    assert not posenc.plan(Config(), 65).plan.fits
    for to, ok in ((64, True), (65, False)):
        assert posenc.plan(config, to).ok is posenc.plan(config, to).as_json()["ok"] is ok
    assert posenc.plan("llama-2-7b", 4096, base=1e6).plan.base == 1e6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"to": 0}, "to 0: must be"),
        ({"to": 2.5}, "to 2.5: must be"),
        ({"to": 10**9}, "at most 16777216"),
        ({"to": 64, "bases": 0}, "bases 0: must be"),
        ({"to": 64, "require": "contxt>=1"}, "require 'contxt>=1'"),
        ({"to": 64, "layer_type": "x"}, "layer_type 'x'"),
    ],
)
def test_wrong_arguments_are_value_errors_that_name_them(arguments, said):
    with pytest.raises(ValueError, match=said):
        posenc.plan("llama-2-7b", **arguments)
