"""The examples of the library, on its page and in the README, give what is shown."""

import doctest
import re
from pathlib import Path

import pytest

import posenc_cli as posenc

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "library.md"


@pytest.mark.long
@pytest.mark.parametrize("page", [PAGE, ROOT / "README.md"], ids=lambda page: page.name)
def test_every_example_of_a_page_gives_what_it_shows(page):
    blocks = re.findall(r"^```python\n(>>> .*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert len(test.examples) > 4
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_the_page_names_what_is_exported():
    named = {*re.findall(r"\b[A-Za-z_]+\b", PAGE.read_text())}
    unsaid = {"ModelEncoding", "SimilarityReport", "Spectrum", "Tables", "__version__"}  # types
    assert {*dir(posenc)} - unsaid <= named
