"""What tests of commands share: a refusal in one line, and a report in JSON."""

import json
import re
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def own(tmp_path):
    """A file of schemes of a user's own, in the current folder."""
    return shutil.copy(Path(__file__).with_name("own_schemes.py"), tmp_path / "own.py")


@pytest.fixture
def printed(call):
    """Run a command that ends in a status, by default 0, and give what it prints."""

    def run(*arguments, status=0, err=None):
        found, out, said = call(*arguments)
        assert found == status, said
        assert err is None or said == err
        return out

    return run


@pytest.fixture
def refused(call):
    """Run what ends in one line of error, at most a hint, and no file, and give what is said."""

    def run(*arguments, status=2):
        before = {*Path().rglob("*")}
        found, out, err = call(*arguments)
        assert (found, out) == (status, ""), err
        assert re.fullmatch(r"posenc: error: .+\n(hint: .+\n)?", err), err
        assert {*Path().rglob("*")} == before
        return err

    return run


@pytest.fixture
def report(call):
    """Run a command with --json: its status, and the document, whose schema comes first."""

    def run(command, *arguments):
        status, out, err = call(command, *arguments, "--json")
        assert err == "", err
        document = json.loads(out, parse_constant=pytest.fail)
        assert next(iter(document.items())) == ("schema", f"posenc/{command}/1")
        assert document.get("ok", status == 0) == (status == 0)
        return status, document

    return run


@pytest.fixture
def document(report):
    """Run a command with --json that ends in a status, by default 0: its document."""

    def run(*arguments, status=0):
        found, document = report(*arguments)
        assert found == status
        return document

    return run


@pytest.fixture
def screen(monkeypatch):
    """Let stdout be a terminal of a size that wants no colours."""

    def show(columns, lines):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        for name, value in (("COLUMNS", columns), ("LINES", lines), ("NO_COLOR", 1)):
            monkeypatch.setenv(name, str(value))

    return show
