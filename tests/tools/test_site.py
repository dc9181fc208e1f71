"""The site fetches nothing from elsewhere: its search works without a network."""

import re
from pathlib import Path

import pytest

from tools import site

ROOT = Path(__file__).parents[2]


def test_the_script_of_the_search_comes_from_the_site_itself():
    page = f'<script src="{site.SHIM}"></script><a href="https://arxiv.org">a</a>'
    assert '<script src="../assets/iframe-worker.js">' in site.own(page, 1)
    assert '<script src="assets/iframe-worker.js">' in site.own(page, 0)
    assert (ROOT / "docs" / "assets" / "iframe-worker.js").is_file()


@pytest.mark.parametrize(
    "tag", ['<script src="https://a.org/x.js">', '<link rel="stylesheet" href="https://a.org/x">']
)
def test_a_page_that_would_fetch_something_is_refused(tag):
    with pytest.raises(ValueError, match=r"would fetch https://a\.org/x"):
        site.own(tag, 0)


@pytest.mark.slow
def test_the_site_is_built_and_each_of_its_pages_is_its_own(tmp_path):
    build = pytest.importorskip("mkdocs.commands.build", reason="mkdocs is not installed")
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True)
    build.build(config)
    pages = [*(tmp_path / "site").rglob("*.html")]
    assert len(pages) > 50
    for page in pages:
        assert not re.search(r'<script[^>]+src="?https?:', page.read_text("utf-8"))
