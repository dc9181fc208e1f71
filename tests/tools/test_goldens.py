"""Every golden has its generator, or the reason why it has none; none of it needs the peers."""

from __future__ import annotations

import hashlib
import json

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


def test_where_a_peer_is_missing_the_check_fails_and_says_which(monkeypatch, capsys):
    def missing(*_):
        raise ImportError("No module named 'transformers'")

    monkeypatch.setattr(goldens, "files_of", missing)
    assert goldens.main(["--check", "alibi_bloom"]) == 1
    assert capsys.readouterr().out == "alibi_bloom: not made: No module named 'transformers'\n"
