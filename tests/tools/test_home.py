"""Where posenc lives is written by one command, wherever posenc says it."""

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tools import home

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml", ".pre-commit-hooks.yaml"]
PAGES += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))]
FIRST, SECOND = "https://github.com/some-one/some.encodings", "https://github.com/other/posenc"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A checkout that has no home yet, as far as its home is written somewhere."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # hatch_build.py adds its folder
    (tmp_path / "docs").mkdir()
    others = ["pyproject.toml", "CITATION.cff", "hatch_build.py", "LICENSE"]
    for name in [*PAGES, *others]:
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "posenc_cli" / "backends", tmp_path / "posenc_cli" / "backends")
    shutil.copy(ROOT / "posenc_cli" / "__init__.py", tmp_path / "posenc_cli")
    return tmp_path


def pages(tree):
    return {name: (tree / name).read_text() for name in PAGES}


@pytest.mark.long
def test_a_home_is_in_the_metadata_the_pages_the_action_and_the_citation(tree, capsys):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    before = pages(tree)
    assert home.PLACEHOLDER in before["docs/ci.md"]
    for url in (FIRST, SECOND):
        assert home.main([url + {FIRST: ".git", SECOND: "/"}[url]], tree) == 0
        assert "pyproject.toml" in capsys.readouterr().out.splitlines()
        slug = url.removeprefix("https://github.com/")
        after = pages(tree)
        assert after == {k: v.replace(home.PLACEHOLDER, slug) for k, v in before.items()} | {
            "CONTRIBUTING.md": before["CONTRIBUTING.md"]
        }
        assert f"- uses: {slug}@v" in after["docs/ci.md"]
        urls = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["urls"]
        assert urls["Repository"] == url
        assert all(each.startswith(url) for each in urls.values())
        citation = yaml.safe_load((tree / "CITATION.cff").read_text())
        assert citation["repository-code"] == url
        assert citation["license"] == "MIT"
    assert home.main([SECOND], tree) == 0
    assert capsys.readouterr().out == "", "nothing is left to change"


@pytest.mark.parametrize(
    "arguments",
    [[], [FIRST, SECOND], ["github.com/a/b"], ["https://github.com/a"], ["https://x.org/a/b"]],
)
def test_anything_but_one_url_of_a_repository_is_refused_in_one_line(arguments, tree, capsys):
    before = pages(tree)
    assert home.main(arguments, tree) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "usage: python tools/home.py https://github.com/OWNER/NAME\n")
    assert pages(tree) == before


@pytest.mark.long
def test_the_long_description_leads_to_files_of_the_repository(tree):
    core = pytest.importorskip("hatchling.metadata.core", reason="hatchling is not installed")
    manager = pytest.importorskip("hatchling.plugin.manager", reason="hatchling is not installed")
    link = re.compile(r"(!?)\[[^]]*\]\(([^)]*)\)")

    def description():
        return core.ProjectMetadata(str(tree), manager.PluginManager()).core.readme

    own = (tree / "README.md").read_text()
    assert description() == own
    home.move(tree, SECOND)
    relative, absolute = link.findall(own), link.findall(description())
    assert len(relative) > 20
    for (image, path), found in zip(relative, absolute, strict=True):
        assert (ROOT / path.partition("#")[0]).exists()
        assert found == (image, f"{SECOND}/{'raw' if image else 'blob'}/main/{path}")


def test_no_page_says_to_install_a_name_that_no_index_has():
    """posenc-cli comes from a checkout, or from the repository."""
    asked = re.compile(r"(?:install |additional_dependencies:)[^\n`]*\bposenc-cli\b( @ git)?")
    texts = [(ROOT / name).read_text() for name in PAGES]
    texts += [path.read_text() for path in sorted((ROOT / "posenc_cli").rglob("*.py"))]
    found = [repository for text in texts for repository in asked.findall(text)]
    assert len(found) >= 3
    assert {*found} == {" @ git"}
