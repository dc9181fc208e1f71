"""Write the manual pages in man/, and the help of the program, or check them (--check).

Both are derived from the declarations of the commands.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from posenc_cli import __version__
from posenc_cli.cli.app import (
    GROUPS,
    application,
    program_brief,
    program_page,
)
from posenc_cli.cli.command_line import COMMANDS, function_of
from posenc_cli.cli.help.help_page import HelpPage
from posenc_cli.cli.help.known_answers import PATHS
from posenc_cli.cli.streams import WIDEST_PIPED

FOLDER = Path(__file__).parent.parent / "man"

STATUSES = (
    ("0", "Success; every check passed."),
    ("1", "A check failed."),
    ("2", "Wrong usage or invalid input, including a malformed file."),
    ("3", "A problem outside posenc: a full disk, an unreadable path, or a missing library."),
    ("70", "A bug in posenc."),
    ("130", "Ended by Ctrl-C (SIGINT)."),
    ("141", "The reader closed standard output, as head does."),
    ("143", "Ended by SIGTERM."),
)
ENVIRONMENT = {
    "Computing": (
        ("POSENC_BACKEND", "The default of --backend."),
        ("POSENC_THREADS", "The default of --threads."),
    ),
    "Subject": (
        (
            "VIRTUAL_ENV, CONDA_PREFIX",
            "The Python environment in which --impl runs, unless --python is given.",
        ),
        ("GITHUB_STEP_SUMMARY", "The file to which --format github adds a summary."),
        ("GITHUB_WORKSPACE, CI_PROJECT_DIR", "File names in reports are relative to this folder."),
    ),
    "General": (
        ("FORCE_COLOR, NO_COLOR, TERM=dumb", "These control color, unless --color is given."),
        ("COLUMNS, LINES", "The size of the terminal, instead of the detected size."),
    ),
}
"""The environment variables of the commands that have options under a heading."""

FILES = {
    "generate": [("<scheme>-<shape>.npy", "The output file in the current folder, without --out.")]
}
"""The files that a command writes by default."""

DESCRIPTION = (
    "Results go to standard output, and everything else to standard error. An output file appears "
    "only when it is complete. After an error, there is no new file. posenc help COMMAND shows the "
    "examples and the options of a command."
)


def pages() -> tuple[HelpPage, dict[str, HelpPage]]:
    """Return the page of the program, and of each command."""
    commands = {}
    for name in COMMANDS:
        program = application([name, "--help"])
        parent = program.make_context("posenc", [], resilient_parsing=True)
        own = program.commands[name]
        commands[name] = HelpPage.of(
            own.make_context(name, [], parent=parent, resilient_parsing=True)
        )
    return program_page(parent), commands


def escaped(text: str) -> str:
    r"""Return text in ASCII that roff prints unchanged.

    >>> print(escaped(".npy isn't 'θ' \\ -1"))
    \&.npy isn\(aqt \(aq\[u03B8]\(aq \e \-1
    """
    signs = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    signs["|"] = r"|\:"  # a line may end there
    text = "".join(
        signs.get(sign) or (sign if sign.isascii() else rf"\[u{ord(sign):04X}]") for sign in text
    )
    return rf"\&{text}" if text.startswith(".") else text


def term(text: str) -> str:
    r"""Return an option or argument as in manuals: typed text is bold, placeholders are slanted.

    >>> print(term("-s, --scheme NAME"))
    \fB\-s,\fR \fB\-\-scheme\fR \fINAME\fR
    """
    return " ".join(
        rf"\f{'B' if word.startswith('-') else 'I'}{escaped(word)}\fR" for word in text.split()
    )


def definitions(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return terms with their meanings below them."""
    return [line for name, text in entries for line in (".TP", term(name), escaped(text))]


def groups(sections: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> list[str]:
    """Return definitions under headings."""
    return [
        line
        for heading, entries in sections
        for line in (f".SS {escaped(heading)}", *definitions(entries))
    ]


def paragraphs(texts: Iterable[str]) -> list[str]:
    """Return paragraphs."""
    return [line for text in texts for line in (".PP", escaped(text))]


def document(name: str, summary: str, sections: Mapping[str, Sequence[str]]) -> str:
    """Return a page: its name, its subject, and its sections that have lines."""
    about = rf"{escaped(name)} \- {escaped(summary[0].lower() + summary[1:].rstrip('.'))}"
    lines = [
        r".\" tools/man.py makes this page of the command's declaration: make format.",
        f'.TH {escaped(name.upper())} 1 "" "posenc {__version__}" "User Commands"',
        *(".nh", ".ad l"),  # no option is cut, and what is copied has its own spaces
        *(".SH NAME", about),
    ]
    for title, body in sections.items():
        lines += [f".SH {title}", *body] if body else []
    return "\n".join(lines) + "\n"


def synopsis(page: HelpPage) -> list[str]:
    """Return the call of a command."""
    arguments = page.usage.removeprefix(page.name).split()
    return [" ".join([rf"\fB{escaped(page.name)}\fR", *map(term, arguments)])]


def command_manual(page: HelpPage) -> str:
    """Return the manual page of a command."""
    command = page.name.split()[-1]
    checks = function_of(command).__annotations__["return"] == "int"  # else it has one status
    headings = {heading for heading, _ in page.sections}
    variables = [entry for key, own in ENVIRONMENT.items() if key in headings for entry in own]
    examples = [".EX", *map(escaped, page.examples), ".EE"]
    sections = {
        "SYNOPSIS": synopsis(page),
        "DESCRIPTION": paragraphs((page.summary, *page.paragraphs)),
        "OPTIONS": groups(page.sections),
        "EXAMPLES": examples,
        "EXIT STATUS": definitions(
            (code, text) for code, text in STATUSES if code != "1" or checks
        ),
        "ENVIRONMENT": definitions(variables),
        "FILES": definitions(FILES.get(command, ())),
        "SEE ALSO": [r"\fBposenc\fR(1)"],
    }
    return document(page.name.replace(" ", "-"), page.summary, sections)


def program_manual(page: HelpPage, commands: Mapping[str, HelpPage]) -> str:
    """Return the manual page of the program."""
    told = [
        (group.capitalize(), [(f"posenc {name}", commands[name].summary) for name in names])
        for group, names in GROUPS.items()
    ]
    (_, entries), *_ = page.sections
    names = [rf"\fBposenc\-{escaped(name)}\fR(1)" for name in sorted(commands)]
    sections = {
        "SYNOPSIS": synopsis(page),
        "DESCRIPTION": paragraphs((page.summary, DESCRIPTION)),
        "COMMANDS": groups(told),
        "OPTIONS": definitions(entry for entry in entries if entry.term.startswith("-")),
        "EXIT STATUS": definitions(STATUSES),
        "ENVIRONMENT": definitions(entry for own in ENVIRONMENT.values() for entry in own),
        "SEE ALSO": [",\n".join(names), *paragraphs(page.closing[1:])],
    }
    return document("posenc", page.summary, sections)


def manuals() -> dict[str, str]:
    """Return the manual pages by the name of the file."""
    program, commands = pages()
    texts = {f"posenc-{name}.1": command_manual(page) for name, page in commands.items()}
    return {"posenc.1": program_manual(program, commands), **texts}


def program_helps() -> dict[str, str]:
    """Return the output of ``posenc -h`` and ``--help`` in a pipe."""
    context = application(["--help"]).make_context("posenc", [], resilient_parsing=True)
    whole = program_page(context).text(WIDEST_PIPED)
    return {PATHS["-h"]: program_brief(context, WIDEST_PIPED), PATHS["--help"]: whole}


def main(check: bool) -> int:
    """Write the pages, or give status 1 where that would change a file."""
    wanted = {Path(path): text for path, text in program_helps().items()}
    wanted |= {FOLDER / name: text for name, text in manuals().items()}
    files = {*wanted, *FOLDER.glob("*")}
    there = {path: path.read_text("utf-8") for path in files if path.exists()}
    stale = {path for path in files if there.get(path) != wanted.get(path)}
    if check:
        for path in sorted(stale):
            print(f"{path.name}: is out of date; run make format", file=sys.stderr)
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], "utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
