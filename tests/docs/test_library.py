"""The examples of the library's page give what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import posenc_cli as posenc

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def test_every_example_of_the_page_gives_what_it_shows():
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(>>> .*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    said: list[str] = []
    results = doctest.DocTestRunner().run(test, out=said.append)
    assert results.failed == 0, "".join(said)


def test_the_page_names_what_is_exported():
    named = {*re.findall(r"\b[A-Za-z_]+\b", PAGE.read_text())}
    unsaid = {"ModelEncoding", "SimilarityReport", "Spectrum", "Tables", "__version__"}  # types
    assert {*dir(posenc)} - unsaid <= named
