"""Help, output and pages say things in the field's words: the glossary's other column stays out."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tools import man

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("docs/*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING", "ARCHITECTURE")),
]

_WHO = "that|which|pairs?|columns?|nothing|waves?|it|they|not|vectors?|to|head|slice|keys|RoPE"
INSTEAD = {
    # Full turns of a wave are counted, as YaRN and Llama 3.1 do; what turns, rotates.
    rf"\b(?:turned|turning|unturned)\b|\b(?:{_WHO}) turns?\b(?! (?:of|in|a|per|up|into|over)\b)": (
        "rotate"
    ),
    r"\bpairs? of columns\b": "frequency pair, dimension pair",
    r"(?<![-\w])stretch(?:ed|es|ing)?\b": "context extension, RoPE scaling",
    r"\btrained at\b(?! \d)": "trained length",
    r"\b(?:never|not) complete[sd]? a turn\b": "wavelength longer than the context",
    r"\b(?:fast|slow|fastest|slowest) pairs?\b": "high-frequency, low-frequency",
    r"\bmultiplied in all\b": "logits × factor²",
    r"\bheads (?:it|an encoding) makes\b": "attention pattern",
    r"\bgolden packs?\b": "test vectors",
    r"\bkill(?:s|ed)?\b": "detects",
    r"\bknown mistakes?\b": "known bug",
    r"\bbelongs there\b|\bwhere \S+ belongs\b": "expected",
    r"\botherwise than\b|\bengines part\b|\bparts? from\b": "differs from",
    r"\b(?:held|hold|holds|holding) (?:it |them )?against\b|\bheld to\b": "compare with",
    r"\b(?:results?|values?|frequenc(?:y|ies)|errors?) (?:is|are) off by\b|\blies? beside\b": (
        "maximum absolute error"
    ),
    r"\bdrawn at random\b": "randomly initialized",
    r"\bsaid to be not tried\b": "not checked",
    r"\b(?:is|are) taken by\b": "supported by",
    r"\bis none that\b": "not recognized",
}
"""Words that nobody in the field says, and what to say."""

ALLOWED = {
    r"posenc_cli/experiments/.*": r"killed|stretch",  # a process by a signal; --stretch
    r"docs/extrapolate.md|README.md|help": r"[Ss]tretch(es)?\b",  # what the option --stretch names
    r"docs/ledger.md": r"drawn at random",  # random positions, which are drawn; nothing is a weight
}
"""By a pattern of places, what is meant there as it is said."""

LEFT = {"posenc_cli/cli": 1}
"""Packages whose output still has one: ``plan --require`` has the name of a rule. No page has."""

LEFT_IN_COMMENTS = 28
"""How many are left in docstrings and comments of the package: only ever less."""

LEFT_IN_HELP = {"plan": 1}
"""Commands whose help still has them, likewise: plan has the name of a rule."""


def found(text: str, place: str) -> list[str]:
    """The words of a text that nobody says, with a little of what stands around them."""
    allowed = [words for where, words in ALLOWED.items() if re.fullmatch(where, place)]
    return [
        f"{text[max(0, match.start() - 30) : match.end() + 20]!r}: say {say}"
        for pattern, say in INSTEAD.items()
        for match in re.finditer(pattern, text)
        if not any(re.search(words, match[0]) for words in allowed)
    ]


def templates(path: Path) -> list[str]:
    """The texts of a module that may be printed: what has a space and is no docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    statements = (each for each in ast.walk(tree) if isinstance(each, ast.Expr))
    docs = {id(each.value) for each in statements}
    constants = (each for each in ast.walk(tree) if isinstance(each, ast.Constant))
    return [
        each.value
        for each in constants
        if isinstance(each.value, str) and " " in each.value and id(each) not in docs
    ]


def comments(path: Path) -> list[str]:
    """The docstrings and comments of a module, without names of code."""
    text = path.read_text("utf-8")
    nodes = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Expr))
    docs = [each.value.value for each in nodes if isinstance(each.value, ast.Constant)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    docs += [each.string for each in tokens if each.type == tokenize.COMMENT]
    return [re.sub(r"``[^`]*``|>>>.*", " ", doc) for doc in docs if isinstance(doc, str)]


def prose(page: Path) -> str:
    """A page without code, which has names of its own, and without what is generated."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", page.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL)


def counts() -> dict[str, list[str]]:
    """What is found, by package or page."""
    hits: dict[str, list[str]] = {}
    for path in sorted(ROOT.glob("posenc_cli/**/*.py")):
        name = path.relative_to(ROOT).as_posix()
        package = "/".join(name.split("/")[:-1][:2])
        for text in templates(path):
            hits.setdefault(package, []).extend(found(text, name))
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        hits[name] = found(prose(page), name)
    return {place: words for place, words in hits.items() if words}


@pytest.mark.long
def test_output_and_pages_say_what_the_field_says():
    hits = counts()
    more = {place: words for place, words in hits.items() if len(words) > LEFT.get(place, 0)}
    assert more == {}


@pytest.mark.long
def test_comments_say_what_the_field_says():
    hits = [
        f"{path.name}: {hit}"
        for path in sorted(ROOT.glob("posenc_cli/**/*.py"))
        for text in comments(path)
        for hit in found(text, path.relative_to(ROOT).as_posix())
    ]
    assert len(hits) <= LEFT_IN_COMMENTS, hits


@pytest.mark.long
def test_help_says_what_the_field_says():
    _, commands = man.pages()
    hits = {name: found(page.text(1000), "help") for name, page in commands.items()}
    more = {name: words for name, words in hits.items() if len(words) > LEFT_IN_HELP.get(name, 0)}
    assert more == {}


@pytest.mark.parametrize(
    "text", ["x turned", "every pair turns", "a golden pack", "results are off by 2"]
)
def test_a_word_that_nobody_says_is_found(text):
    assert found(text, "docs/any.md")


@pytest.mark.parametrize("text", ["turns in the context", "in turn", "--stretch yarn", "rotated"])
def test_a_word_of_the_field_is_not(text):
    assert not found(text, "docs/any.md")
