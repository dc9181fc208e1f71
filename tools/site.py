"""Change each page that mkdocs writes, so that it fetches nothing from other sites."""

import re
from typing import Any

SHIM = "https://unpkg.com/iframe-worker/shim"
"""The script that the theme would fetch for search in a folder; docs/assets has it."""


def own(page: str, depth: int) -> str:
    """Return a page without scripts and styles from other sites.

    Raises: ValueError if it still fetches one.
    """
    page = page.replace(SHIM, f"{'../' * depth}assets/iframe-worker.js")
    fetched = re.findall(r"<(?:script|link)\b[^>]*\b(?:src|href)=\"?(https?:[^\"\s>]+)", page)
    if fetched:
        raise ValueError(f"the site would fetch {fetched[0]}")
    return page


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Return a page; mkdocs calls this for each one."""
    return own(output, page.url.count("/"))


def on_post_template(output_content: str, **_: Any) -> str:
    """Return a page of the theme; mkdocs calls this for each one."""
    return own(output_content, 0)
