"""Every golden has its generator, or the reason why it has none; none of it needs the peers."""

import hashlib
import json
from unittest import mock

import pytest

from tools import goldens

NAMES = sorted(file.stem for file in goldens.GOLDEN.glob("*.json"))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_is_made_here_or_recorded_with_the_reason(name, capsys):
    made = goldens.generator_of(name) is not None
    assert made != (name in goldens.RECORDED)
    assert goldens.main(["--list", name]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith(f"{name}: ")
    assert made != ("not made here: " in listed)
    assert ("made here but for" in listed) == (name in goldens.RECORDED_ARRAYS)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_statement_names_the_bytes_of_its_arrays_and_is_laid_out_as_the_tool_does(name):
    text = (goldens.GOLDEN / f"{name}.json").read_text("utf-8")
    statement = json.loads(text)
    assert goldens.laid_out(statement).strip() == text.strip()
    archive = goldens.GOLDEN / f"{name}.npz"
    if "npz_sha256" in statement:
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == statement["npz_sha256"]


def test_no_array_is_without_a_statement_and_no_reason_without_a_golden():
    assert {file.stem for file in goldens.GOLDEN.glob("*.npz")} <= set(NAMES)
    assert {*goldens.RECORDED, *goldens.RECORDED_ARRAYS} <= set(NAMES)


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        goldens.main(["rope_of_nobody"])
    assert "tests/golden has no rope_of_nobody" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [ImportError("No module named 'transformers'"), LookupError("the golden lacks k_out")]
)
def test_a_golden_that_cannot_be_made_fails_the_check_and_the_others_are_made(
    error, monkeypatch, capsys
):
    monkeypatch.setattr(goldens, "files_of", mock.Mock(side_effect=[error, {}]))
    assert goldens.main(["--check", "alibi_bloom", "alibi_mpt"]) == 1
    assert capsys.readouterr().out == f"alibi_bloom: not made: {error}\n"
    assert goldens.files_of.call_count == 2
