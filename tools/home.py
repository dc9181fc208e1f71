"""Write the address of posenc's repository into its metadata, pages and citation.

Usage: python tools/home.py https://github.com/OWNER/NAME

Until then, pages say OWNER/posenc for the repository. A second run changes the address. When posenc
is built, ``hatch_build.py`` makes the links of the long description absolute, with the URL that
this writes to pyproject.toml.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "OWNER/posenc"
URLS = """[project.urls]
Repository = "{url}"
Documentation = "{url}/tree/main/docs"
Changelog = "{url}/blob/main/CHANGELOG.md"
Issues = "{url}/issues"

"""


def home(root: Path) -> str:
    """Return the owner and name of the repository in pyproject.toml, or the placeholder."""
    project = (root / "pyproject.toml").read_text()
    found = re.search(r'^Repository = "https://github\.com/(.*)"$', project, re.MULTILINE)
    return found[1] if found else PLACEHOLDER


def move(root: Path, url: str) -> list[str]:
    """Write a URL wherever posenc says where it lives; the files that changed."""
    old, new = home(root), url.removeprefix("https://github.com/")
    pages = {path: path.read_text() for path in [root / "README.md", *root.glob("docs/*.md")]}
    texts = {
        page: re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-]|\.\w)", new, text)
        for page, text in pages.items()
    }
    project = root / "pyproject.toml"
    pages[project] = project.read_text()
    bare = re.sub(r"^\[project\.urls\]\n(?:.+\n)*\n", "", pages[project], flags=re.MULTILINE)
    start = "[project.optional-dependencies]\n"
    texts[project] = bare.replace(start, URLS.format(url=url) + start, 1)
    citation = root / "CITATION.cff"
    pages[citation] = citation.read_text()
    without = re.sub(r"^repository-code: .*\n", "", pages[citation], flags=re.MULTILINE)
    texts[citation] = without.replace("license:", f"repository-code: {url}\nlicense:", 1)
    changed = [path for path, text in texts.items() if text != pages[path]]
    for path in changed:
        path.write_text(texts[path])
    return [str(path.relative_to(root)) for path in changed]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Change the address, and print the changed files; return 2 for anything but one URL."""
    url = arguments[0].removesuffix("/").removesuffix(".git") if len(arguments) == 1 else ""
    if not re.fullmatch(r"https://github\.com/[A-Za-z0-9][\w-]*/[\w.-]+", url):
        print("usage: python tools/home.py https://github.com/OWNER/NAME", file=sys.stderr)
        return 2
    for path in move(root, url):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
