"""A help page: summary, examples, then options by topic."""

from __future__ import annotations

import re
import textwrap
from inspect import Parameter, signature
from typing import Any, NamedTuple

from posenc_cli.cli.options import ENCODING, EVERY_COMMANDS, OWN, PARAMETERS
from posenc_cli.records import Record
from posenc_cli.render.typesetting import continued_command


class Entry(NamedTuple):
    """An option, an argument or a command, and its description."""

    term: str
    text: str


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
"""The order of headings; other headings come first, options of every command last."""

HELP = "show help: -h in brief, --help in full"
_HELP_TERM = "-h, --help"
_SHARED = (ENCODING, PARAMETERS, "Positions", "Picture", "Output", "Computing", EVERY_COMMANDS)
"""Headings of options that many commands share."""
EXPLAINED = {
    **dict.fromkeys((PARAMETERS, "Positions", "Computing"), "posenc generate"),
    "Picture": "posenc heatmap",
    EVERY_COMMANDS: "posenc",
}
"""Headings whose options mean the same everywhere, and the page that explains them."""
SCREEN = 24
"""Lines of the smallest terminal; a brief page and the prompt fit on it."""
_EXAMPLES = 8
"""The most lines of examples on a brief page."""
_FEWEST_NAMED = 3
"""The fewest options of a heading that are listed on one line by name."""
_WIDEST_TERM = 24
_NARROWEST_TEXT = 20


class HelpPage(Record):
    """The help of a command, or of the program."""

    name: str
    usage: str
    summary: str
    paragraphs: tuple[str, ...]
    examples: tuple[str, ...]
    sections: tuple[tuple[str, tuple[Entry, ...]], ...]
    closing: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: Any) -> HelpPage:
        """Return the page of a Typer context's command, from its declaration.

        Typer's own page differs between versions of Typer and click.
        """
        command = context.command
        declared = signature(command.callback, eval_str=True).parameters
        arguments, entries = ["[OPTIONS]"], dict[str, list[Entry]]()
        for parameter in command.params:
            heading = parameter.rich_help_panel or OWN
            if "--help" in parameter.opts:
                continue
            entry = entry_of(declared[parameter.name])
            if parameter.param_type_name == "argument":
                arguments.append(entry.term)
                heading = "Arguments"
            entries.setdefault(heading, []).append(entry)
        entries.setdefault(EVERY_COMMANDS, []).append(Entry(_HELP_TERM, HELP))
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
        """Return the one-screen page: examples, then one line per option, the command's own first.

        On a narrow terminal, or with many options, some appear only on the whole page.
        """
        examples: list[str] = []
        for example in self.examples:
            lines = textwrap.indent(continued_command(example, width - 4), "    ").splitlines()
            if not examples or len(examples) + len(lines) <= _EXAMPLES:
                examples += lines
        shared = sorted(self.sections, key=lambda section: section[0] in _SHARED)
        entries = [entry for _, entries in shared for entry in entries if entry.term != _HELP_TERM]
        head = f"{_filled(self.summary, width)}\n\n" + "\n".join(examples)
        room = SCREEN - 4 - len(head.splitlines())
        shown = entries[: room + (room == len(entries) - 1)]
        column = min(max((len(term) for term, _ in shown), default=0), _WIDEST_TERM) + 4
        lines = [_brief_entry(entry, column, width) for entry in shown]
        more = f", and {len(entries) - len(shown)} more" if len(shown) < len(entries) else ""
        own = f"{self.name} --help explains these options in full{more}"
        closing = (_filled(line, width) for line in self.closing or (own,))
        return "\n".join([head, "", *lines, "", *closing]) + "\n"

    def _listed(self, heading: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Return the entries of a heading, or one line of names if another page explains them."""
        place = EXPLAINED.get(heading, self.name)
        if place == self.name or len(entries) < _FEWEST_NAMED:
            return entries
        names = "; ".join(entry.term for entry in entries)
        return (Entry(names, f"{place} --help explains these"),)

    def text(self, width: int) -> str:
        """Return the whole page; only text without spaces is wider than ``width``."""
        head = _filled(f"Usage: {self.usage}", width, hanging=7)
        summary = _filled(self.summary, width, indent=2)
        # The program's page has no examples and must fit 24 lines.
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
    """Return an option's or argument's flags, and its help with the default if it is shown."""
    declared, default, extra = option.annotation.__metadata__[-1], option.default, ""
    settings = declared.settings
    flags = sorted(declared.flags, key=lambda flag: flag.startswith("--"))
    if default is option.empty:
        extra = "[required]"
    elif settings.get("show_default", True) and default is not False and default not in (None, ()):
        extra = f"[default: {default}]"
    text = " ".join(f"{settings.get('help', '')} {extra}".split())
    return Entry(" ".join(filter(None, [", ".join(flags), settings.get("metavar")])), text)


class _Wrapper(textwrap.TextWrapper):
    """Break lines at spaces and after ``|``, never inside a name."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=\|))")


def _filled(text: str, width: int, *, indent: int = 0, hanging: int | None = None) -> str:
    """Fill a paragraph; ``hanging`` is the indent of all lines but the first."""
    wrapper = _Wrapper(
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.fill(text)


def _brief_entry(entry: Entry, column: int, width: int) -> str:
    """Return a term and the most of its description that is complete and fits one line."""
    term, text = f"  {entry.term}".ljust(column), entry.text
    term = term if len(term) <= column else f"{term}  "
    room = max(width - len(term), 5)
    stated = text.partition(" [")[0]
    ends = [match.start() for match in re.finditer(r"[;:] |,? \(|$", stated)]
    parts = [stated[:end] for end in reversed(ends)]
    if whole := next((form for form in (text, *parts) if len(form) <= room), None):
        return term + whole
    return term + _Wrapper(room, max_lines=1, placeholder=" …", break_on_hyphens=False).fill(text)


def _entry_text(entry: Entry, column: int, width: int) -> str:
    """Return a term and its description, beside it or below it if there is no room."""
    term, text = entry
    if width - column < _NARROWEST_TEXT or len(term) > column - 4:
        column = min(column, 6)
        return f"{_filled(term, width, indent=2)}\n{_filled(text, width, indent=column)}".rstrip()
    return (f"  {term}".ljust(column) + _filled(text, width, indent=column).lstrip()).rstrip()
