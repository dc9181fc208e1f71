"""Pages of help: examples first, options in groups, no word cut at any width."""

import importlib.metadata
import re
import shlex
import tomllib
from collections import Counter
from email.message import Message

import pytest

from posenc_cli import catalogue
from posenc_cli.cli.app import GROUPS
from posenc_cli.cli.choosing import ParameterOptions
from posenc_cli.cli.command_line import COMMANDS
from posenc_cli.cli.help import known_answers
from posenc_cli.cli.help.help_page import EXPLAINED, entry_of
from posenc_cli.cli.help.known_answers import PAGE, address
from tools import man

ORDER = ("Arguments", "Subject", "Encoding", "Parameters", "Positions", "Options", "Picture")
ORDER += ("Output",)


@pytest.fixture(scope="module")
def pages():
    program, commands = man.pages()
    return [program, *commands.values()]


def words(text: str) -> list[str]:
    # What a line may break at: a space, a bar between names, the end of an example's line.
    return re.sub(r" \\\n|\|\s*", " ", text).split()


@pytest.mark.long
def test_no_word_is_lost_or_cut_at_any_width_and_no_line_is_wider(pages):
    for page in pages:
        widest = page.text(1000)
        for width in (20, 40, 60, 80):
            text = page.text(width)
            assert words(text) == words(widest)
            for line in text.splitlines():
                assert len(line) <= width or width < 60, line
                assert line == line.rstrip()


@pytest.mark.long
def test_the_page_that_is_printed_follows_the_terminal_to_80_columns(call, monkeypatch, pages):
    for columns, width in (("60", 60), ("80", 80), ("200", 80)):
        monkeypatch.setenv("COLUMNS", columns)
        assert call("--help") == (0, pages[0].text(width), "")
        assert call("help", "generate") == (0, pages[1].text(width), "")
        assert call("help") == call("--help")


@pytest.mark.long
def test_h_is_one_screen_of_examples_and_own_options_and_help_is_all(call, pages):
    for page in pages[1:]:
        brief = page.brief(80)
        lines = brief.splitlines()
        assert len(lines) < 24, page.name
        assert max(map(len, lines)) <= 80
        assert lines[0] == page.summary
        assert lines[2].strip().startswith(page.examples[0][:40])
        shown = [line.split("  ")[1] for line in lines if line.startswith(("  -", "  ["))]
        assert shown or not page.sections[:-1], page.name
        assert lines[-1].startswith(f"{page.name} --help explains ")
        own = [entry.term for heading, entries in page.sections for entry in entries]
        assert {*shown} <= {*own}
        hidden = sum(f"\n  {term} " not in brief for term in own if term != "-h, --help")
        assert lines[-1].endswith(f"in full, and {hidden} more" if hidden else "in full")
    rope = call("rope-check", "-h")[1]
    assert "--tables COS SIN" in rope
    assert "--backend" not in rope
    assert call("help", "rope-check")[1] == call("rope-check", "--help")[1] != rope


@pytest.mark.long
def test_h_tells_every_option_in_words_that_fit(pages, monkeypatch):
    assert not [line for page in pages for line in page.brief(80).splitlines() if line[-1:] == "…"]
    assert max(map(len, pages[0].brief(40).splitlines())) <= 40
    monkeypatch.setattr("posenc_cli.cli.help.help_page.SCREEN", 1000)
    for page in pages[1:]:
        brief = page.brief(80)
        for line in brief.splitlines():
            assert not line.endswith(("…", ",", ":")), line
        terms = [term for _, entries in page.sections for term, _ in entries]
        assert [term for term in terms if f"\n  {term} " not in brief] == ["-h, --help"]
    brief = pages[1].brief(80)
    assert "--table NAME       table of a rotary scheme\n" in brief


def test_help_is_as_wide_as_a_terminal_up_to_100_and_paged_where_it_is_longer(call, monkeypatch):
    paged = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    monkeypatch.setattr("posenc_cli.cli.app.text_width", lambda: 200)
    out = call("generate", "--help")[1]
    assert 80 < max(map(len, out.splitlines())) <= 100
    assert not paged
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert call("generate", "--help")[1] == ""
    assert paged == [out.removesuffix("\n")]
    assert call("generate", "-h")[1].startswith("Write the")


def test_the_program_alone_fits_a_screen_and_names_every_command(call):
    status, text, _ = call("-h")
    assert (status, text, "") == call()
    assert len(text.splitlines()) < 24
    assert {*COMMANDS} <= {*re.findall(r"[a-z-]+", text)}


@pytest.mark.parametrize("width", [30, 50, 60])
def test_an_example_on_several_lines_is_the_same_command(pages, width):
    for page in pages:
        lines = page.text(width).partition("Examples:\n")[2].partition("\n\n")[0]
        examples = [line for line in lines.replace(" \\\n", " ").splitlines() if line.strip()]
        assert [*map(shlex.split, examples)] == [*map(shlex.split, page.examples)]


def test_the_program_lists_every_command_by_what_it_does_on_a_short_page(pages):
    text = pages[0].text(80)
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    lines = text.splitlines()
    assert len(lines) <= 9 + len(COMMANDS)
    for group, names in GROUPS.items():
        assert re.search(rf"^  {group} +{names[0]}  ", text, re.MULTILINE)
    summaries = {page.name.split()[-1]: page.summary for page in pages[1:]}
    for name, summary in summaries.items():
        assert sum(line.endswith(f"  {summary}") and f" {name} " in line for line in lines) == 1


def test_a_command_shows_examples_before_its_options_and_what_all_share_last(pages):
    for page in pages[1:]:
        text = page.text(80)
        headings = [heading for heading, _ in page.sections]
        assert text.index("\n  Examples:\n    posenc ") < text.index(f"\n{headings[0]}:\n")
        assert len({*headings}) == len(headings)
        assert headings[-1] == "General"
        assert headings == sorted(headings, key=[*ORDER, *headings].index)
        general = [term for term, _ in page.sections[-1][1]]
        assert general == ["-q, --quiet", "--color WHEN", "--debug", "-h, --help"]


@pytest.mark.long
def test_options_that_another_page_explains_are_named_on_one_line(pages):
    explained = dict(pages[0].sections[0][1])
    for page in pages[1:]:
        if page.name in EXPLAINED.values():
            explained |= {term: text for _, entries in page.sections for term, text in entries}
    lines = 0
    for page in pages[1:]:
        text = " ".join(page.text(80).split())
        lines += len(re.findall(r"^  -", page.text(80), re.MULTILINE))
        for heading, entries in page.sections:
            place = EXPLAINED.get(heading, page.name)
            if place != page.name and len(entries) > 2:
                assert [explained.get(term) for term, _ in entries] == [told for _, told in entries]
                named = "; ".join(term for term, _ in entries)
                assert f"{heading}: {named} {place} --help explains these" in text
    assert lines <= 420


@pytest.mark.parametrize(
    ("name", "heading", "flags"),
    [
        ("generate", "Encoding", {"--scheme", "--config", "--model"}),
        ("generate", "Parameters", {"--dim", "--set"}),
        ("generate", "Positions", {"--len", "--start", "--positions"}),
        ("generate", "Output", {"--out", "--format", "--no-clobber", "--json", "--header"}),
        ("generate", "Computing", {"--backend", "--device", "--threads"}),
        ("rope-check", "Subject", {"--tables", "--inv-freq", "--rotated", "--impl", "--python"}),
        ("heatmap", "Picture", {"--cmap", "--title", "--width", "--theme"}),
        ("heatmap", "Encoding", {"--in", "--scheme"}),
        ("compare", "Encoding", {"--as", "--layer-type"}),
        ("compare", "Parameters", {"--set"}),
        ("models", "Output", {"--json"}),
    ],
)
def test_options_stand_with_those_of_their_kind(pages, name, heading, flags):
    (sections,) = [dict(page.sections) for page in pages if page.name == f"posenc {name}"]
    terms = {flag for term, _ in sections[heading] for flag in re.findall(r"--[a-z-]+", term)}
    assert flags <= terms
    everywhere = [term for entries in sections.values() for term, _ in entries]
    assert len({*everywhere}) == len(everywhere)


def test_a_command_after_a_dash_of_its_own_still_runs(call):
    assert call("--", "schemes", "nope") == call("schemes", "nope")


def test_a_completion_of_commands_says_what_they_do(call, monkeypatch, capsys):
    monkeypatch.setenv("_POSENC_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "posenc ex")
    with pytest.raises(SystemExit):
        call()
    assert "Explain a Hugging Face config" in capsys.readouterr().out


@pytest.fixture
def project_urls(monkeypatch):
    """Let the installed metadata have some addresses."""

    def have(*entries: str) -> None:
        said = Message()
        for entry in entries:
            said["Project-URL"] = entry
        monkeypatch.setattr("importlib.metadata.metadata", lambda _: said)

    return have


def test_the_address_of_the_project_ends_the_help_where_the_metadata_have_one(
    call, project_urls, monkeypatch
):
    monkeypatch.setitem(known_answers.PATHS, "--help", "nowhere")
    project_urls()
    without = call("--help")[1]
    project_urls("Issues, https://example.org/issues", "Homepage, https://example.org/posenc")
    assert call("--help")[1] == f"{without}\n  https://example.org/posenc\n"
    assert "://" not in without


def test_a_bug_is_reported_where_the_metadata_say(call, project_urls, monkeypatch):
    def broken():
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("posenc_cli.cli.commands.models.models", broken)
    for entries, place in (
        ([], ""),
        (["Repository, https://example.org/r"], " at https://example.org/r"),
        (["Homepage, https://a.org/p", "Issues, https://a.org/i"], " at https://a.org/i"),
        (["Chat, https://example.org/chat"], ""),
    ):
        project_urls(*entries)
        status, _, err = call("models")
        assert status == 70
        assert err.splitlines()[1] == f"hint: --debug shows where; please report it{place}"


def test_the_installed_metadata_have_the_addresses_of_the_project_file(monkeypatch):
    project = tomllib.loads((man.FOLDER.parent / "pyproject.toml").read_text())["project"]
    stated = {label.lower(): url for label, url in project.get("urls", {}).items()}
    assert address(PAGE) == next((stated[label] for label in PAGE if label in stated), None)
    monkeypatch.setattr(importlib.metadata.Distribution, "discover", lambda **_: iter(()))
    assert address(PAGE) is None


@pytest.mark.parametrize("name", ["dim", "heads", "base", "layout"])
def test_help_says_the_usual_default_and_the_choices_that_schemes_declare(name):
    schemes = catalogue.BUILT_IN.values()
    declared = [each.parameters[name] for each in schemes if name in each.parameters]
    _, text = entry_of(ParameterOptions.parameters()[name])
    usual = Counter(each.default_text for each in declared if each.default_text).most_common(1)
    assert f"[default: {usual[0][0]}" in text
    told, _, _ = text.partition("[")
    assert {choice for each in declared for choice in each.choices} == {
        word for word in re.findall(r"\w+", told) if name == "layout" and "|" in told
    } - {"sinusoidal", "rotary", "schemes"}
