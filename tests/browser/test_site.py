"""The site in Chromium: every page on a desk and on a phone, and a search without a network."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser.layout import LAYOUT

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("no mkdocs: make browser installs it")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


def test_each_page_of_the_site_fits_a_desk_and_a_phone(browser, site):
    faults = {}
    for page in sorted(site.rglob("*.html")):
        browser.open(page)
        for width in (1280, 390):
            browser.resize(width)
            found = browser.run(LAYOUT)
            if found or browser.console:
                faults[f"{page.relative_to(site)} {width}"] = found[:3] + browser.console[:3]
    assert faults == {}


@pytest.mark.parametrize("width", [1280, 390])
def test_search_finds_a_page_without_a_network(width, browser, site):
    browser.open(site / "index.html", width)
    if width < 960:
        browser.click("header label[for=__search]")
    browser.click("input.md-search__input")
    browser.type("attention factor")
    for _ in range(50):
        browser.resize(width)  # a moment later
        found = browser.run(
            "[...document.querySelectorAll('.md-search-result__item')].map(e => e.textContent)"
        )
        if found:
            break
    assert any("attention factor" in text for text in found)
    assert browser.console == []
