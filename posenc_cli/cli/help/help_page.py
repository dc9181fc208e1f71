"""A help page: summary, examples, then options by topic."""

from __future__ import annotations

import re
import textwrap
from inspect import Parameter, signature
from typing import Any

from posenc_cli.cli.console import continued_command
from posenc_cli.cli.options import ENCODING, EVERY_COMMANDS, OWN, PARAMETERS
from posenc_cli.records import Record

Entry = tuple[str, str]
"""An option, an argument or a command, and what it is for."""

HEADINGS = (
    "Arguments",
    "Subject",
    ENCODING,
    PARAMETERS,
    "Positions",
    OWN,
    "Picture",
    "Output",
    "Computing",
    "Running",
)
"""The order of a page; other headings come before, and what every command has at the end."""

HELP = "show help: -h in brief, --help in full"
_HELP_TERM = "-h, --help"
_SHARED = (ENCODING, PARAMETERS, "Positions", "Picture", "Output", "Computing", EVERY_COMMANDS)
"""Headings of options that many commands have."""
EXPLAINED = {
    **dict.fromkeys((PARAMETERS, "Positions", "Computing"), "posenc generate"),
    "Picture": "posenc heatmap",
    EVERY_COMMANDS: "posenc",
}
"""Headings whose options mean the same everywhere, and whose page explains them."""
SCREEN = 24
"""Lines of the smallest terminal, on which a brief page fits, with the prompt."""
_EXAMPLES = 8
"""Lines of a brief page that examples may take."""
_FEWEST_NAMED = 3
"""Options of a heading that are worth one line instead of a line each."""
_WIDEST_TERM = 24
_NARROWEST_TEXT = 20


class HelpPage(Record):
    """What there is to say of a command, or of the program."""

    name: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    examples: tuple[str, ...]
    sections: tuple[tuple[str, tuple[Entry, ...]], ...]
    closing: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: Any) -> HelpPage:
        """The page of the command of a Typer context, written from its declaration.

        What Typer itself would write of it differs with the versions of Typer and click.
        """
        command = context.command
        declared = signature(command.callback, eval_str=True).parameters
        arguments, entries = ["[OPTIONS]"], dict[str, list[Entry]]()
        for parameter in command.params:
            heading = parameter.rich_help_panel or OWN
            term, text = entry_of(declared[parameter.name])
            if parameter.param_type_name == "argument":
                arguments.append(term)
                heading = "Arguments"
            if "--help" not in parameter.opts:
                entries.setdefault(heading, []).append((term, text))
        entries.setdefault(EVERY_COMMANDS, []).append((_HELP_TERM, HELP))
        order = {heading: place for place, heading in enumerate((*HEADINGS, EVERY_COMMANDS))}
        text, _, examples = (command.help or "").partition("Examples:\n")
        summary, *paragraphs = (" ".join(part.split()) for part in text.strip().split("\n\n"))
        return cls(
            context.command_path,
            " ".join((context.command_path, *arguments)),
            summary,
            tuple(paragraphs),
            tuple(line.strip() for line in examples.splitlines()),
            tuple(
                (heading, tuple(entries[heading]))
                for heading in sorted(entries, key=lambda heading: order.get(heading, -1))
            ),
        )

    def brief(self, width: int) -> str:
        """The page on one screen: examples, then options on a line each, the command's own first.

        Where a terminal is narrow, or all options do not fit, some are left to the whole page.
        """
        examples: list[str] = []
        for example in self.examples:
            lines = textwrap.indent(continued_command(example, width - 4), "    ").splitlines()
            if not examples or len(examples) + len(lines) <= _EXAMPLES:
                examples += lines
        shared = sorted(self.sections, key=lambda section: section[0] in _SHARED)
        entries = [entry for _, entries in shared for entry in entries if entry[0] != _HELP_TERM]
        head = f"{_filled(self.summary, width)}\n\n" + "\n".join(examples)
        room = SCREEN - 4 - len(head.splitlines())
        shown = entries[: room + (room == len(entries) - 1)]
        rest = len(entries) - len(shown)
        column = min(max((len(term) for term, _ in shown), default=0), _WIDEST_TERM) + 4
        lines = [_brief_entry(entry, column, width) for entry in shown]
        more = f", {rest} more than here" if rest else ""
        own = f"{self.name} --help explains every option{more}"
        return "\n".join([head, "", *lines, "", *(self.closing or (own,))]) + "\n"

    def _listed(self, heading: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The entries of a heading; those that another page explains are one line of names."""
        place = EXPLAINED.get(heading, self.name)
        if place == self.name or len(entries) < _FEWEST_NAMED:
            return entries
        return (("; ".join(term for term, _ in entries), f"{place} --help explains these"),)

    def text(self, width: int) -> str:
        """The page, no line of it wider than ``width`` but for what has no space to break at."""
        head = _filled(f"Usage: {self.usage}", width, hanging=7)
        summary = _filled(self.summary, width, indent=2)
        # That of the program, which has no examples, fits a screen of 24 lines.
        blocks = [[head], [summary]] if self.examples else [[head, summary]]
        if self.examples:
            lines = (continued_command(example, width - 4) for example in self.examples)
            blocks.append(["  Examples:", *(textwrap.indent(line, "    ") for line in lines)])
        blocks += [[_filled(paragraph, width, indent=2)] for paragraph in self.paragraphs]
        terms = (len(term) for _, entries in self.sections for term, _ in entries)
        column = min(max(terms, default=0), _WIDEST_TERM) + 4
        for heading, entries in self.sections:
            listed = self._listed(heading, entries)
            lines = (_entry_text(entry, column, width) for entry in listed)
            blocks.append([*([f"{heading}:"] if heading else []), *lines])
        blocks += [[_filled(paragraph, width, indent=2)] for paragraph in self.closing]
        return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def entry_of(option: Parameter) -> Entry:
    """An option or an argument, what it is for, and its default, where that is to be seen."""
    declared, default, extra = option.annotation.__metadata__[0], option.default, ""
    named = (declared.default, *(declared.param_decls or ()))  # an option's first flag comes first
    flags = [text for text in named if isinstance(text, str) and text.startswith("-")]
    flags.sort(key=lambda flag: flag.startswith("--"))
    if default is option.empty:
        extra = "[required]"
    elif declared.show_default and default is not False and default not in (None, ()):
        extra = f"[default: {default}]"
    text = " ".join(f"{declared.help or ''} {extra}".split())
    return " ".join(filter(None, [", ".join(flags), declared.metavar])), text


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at spaces, and between names that a bar separates; never inside a name."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=\|))")


def _filled(text: str, width: int, *, indent: int = 0, hanging: int | None = None) -> str:
    """A paragraph whose lines stand in by ``indent``, all but the first by ``hanging``."""
    wrapper = _Wrapper(
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.fill(text)


def _brief_entry(entry: Entry, column: int, width: int) -> str:
    """A term and what it is for on one line, of a long text its beginning."""
    term, text = f"  {entry[0]}".ljust(column), entry[1]
    term = term if len(term) <= column else f"{term}  "
    return term + textwrap.shorten(
        text, max(width - len(term), 5), placeholder=" …", break_on_hyphens=False
    )


def _entry_text(entry: Entry, column: int, width: int) -> str:
    """A term and, from a column on, what it is for; below it where there is no room beside."""
    term, text = entry
    if width - column < _NARROWEST_TEXT or len(term) > column - 4:
        column = min(column, 6)
        names = _filled(term, width, indent=2)
        return f"{names}\n{_filled(text, width, indent=column)}".rstrip()
    return (f"  {term}".ljust(column) + _filled(text, width, indent=column).lstrip()).rstrip()
