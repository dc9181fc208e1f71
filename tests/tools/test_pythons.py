"""The interpreters of some versions are found, and a required one that is missing is an error."""

import pytest

from tools import pythons

INSTALLED = {"3.11": "/a", "3.13": "/c"}


@pytest.mark.parametrize(
    ("required", "status", "missing"),
    [("", 0, ""), ("3.11 3.13", 0, ""), ("3.11 3.12", 1, "3.12"), ("3.14", 1, "3.14")],
)
def test_a_required_python_that_is_missing_is_an_error(
    required, status, missing, monkeypatch, capsys
):
    monkeypatch.setattr(pythons, "interpreter", INSTALLED.get)
    assert pythons.main(["--required", required, "3.11", "3.12", "3.13"]) == status
    out, err = capsys.readouterr()
    assert out == "3.11 /a\n3.12 missing\n3.13 /c\n"
    assert err == (f"Python {missing} is required and is not installed\n" if missing else "")
