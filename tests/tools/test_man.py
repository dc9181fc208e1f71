"""The manual pages: made of the commands' declarations, valid, and in what is installed."""

import re
import shutil

import pytest

from tests.processes import ran
from tools import man

ESCAPE = re.compile(r"\\(?:[-e&:]|\((?:aq|ga|ha|ti)|f[BIR]|\[u[0-9A-F]{4,5}\])")
MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".EX", ".EE", ".nh", ".ad"}


@pytest.fixture(scope="module")
def manuals():
    return man.manuals()


@pytest.fixture(scope="module")
def pages():
    return man.pages()[1]


@pytest.mark.long
def test_the_pages_are_current(manuals):
    assert {file.name: file.read_text() for file in man.FOLDER.iterdir()} == manuals


def test_a_page_that_is_out_of_date_is_told_and_made_again(tmp_path, monkeypatch, manuals, capsys):
    monkeypatch.setattr(man, "manuals", lambda: manuals)
    monkeypatch.setattr(man, "FOLDER", tmp_path / "man")
    assert man.main(check=True) == 1
    assert man.main(check=False) == 0
    (tmp_path / "man" / "posenc-gone.1").touch()
    assert man.main(check=True) == 1
    assert "make format" in capsys.readouterr().err
    assert man.main(check=False) == man.main(check=True) == 0


def test_nothing_of_a_page_is_a_request_but_what_is_meant_as_one(manuals):
    for text in manuals.values():
        assert text.isascii()
        for line in text.splitlines():
            if not line.startswith(r".\" "):
                assert line[:1] not in "'." or line.split()[0] in MACROS, line
                assert not set(ESCAPE.sub("", line)) & set("\\'`~^-"), line


@pytest.mark.long
def test_groff_sets_every_page_and_each_example_can_be_copied(manuals, pages):
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    given = {"input": "".join(manuals.values()), "encoding": "utf-8"}
    done = ran(groff, "-ww", "-man", "-Tutf8", "-P-cbu", **given)
    assert done.stderr == ""
    lines = {line.strip() for line in done.stdout.splitlines()}
    for page in pages.values():
        assert {*page.examples} <= lines
        for term in (term for _, entries in page.sections for term, _ in entries):
            assert any(line == term or line.startswith(f"{term} ") for line in lines), term


def test_each_command_has_a_page_of_what_there_is_to_say(manuals, pages):
    assert {*manuals} == {"posenc.1", *(f"posenc-{name}.1" for name in pages)}
    for name, text in manuals.items():
        titles = re.findall(r"^\.SH (.+)$", text, re.MULTILINE)
        promised = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"]
        assert [title for title in titles if title in promised] == promised, name
        assert titles[-1] == "SEE ALSO"
        assert ("EXAMPLES" in titles) == (name != "posenc.1")
    assert "FILES" in manuals["posenc-generate.1"]


def test_every_variable_that_a_page_names_is_one_that_the_code_reads():
    code = "".join(file.read_text() for file in (man.FOLDER.parent / "posenc_cli").rglob("*.py"))
    names = " ".join(name for own in man.ENVIRONMENT.values() for name, _ in own)
    for name in re.findall(r"[A-Z][A-Z_]+", names):
        assert f'"{name}"' in code


def test_a_failed_check_is_a_status_of_the_commands_that_check(manuals):
    checking = {name[7:-2] for name, text in manuals.items() if r"\fI1\fR" in text}
    rest = "alibi-slopes check compare emit explain heads identify inspect order-check plan"
    assert checking == {"", *rest.split(), "positions", "rope-check"}
