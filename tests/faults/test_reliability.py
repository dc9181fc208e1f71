"""docs/reliability.md names the tests of each fault, and says how many cases they have at least."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.processes import PATIENCE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows() -> list[tuple[list[tuple[str, str]], int]]:
    """The tests of each row of the page, by file and name, and the count of their cases."""
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].isdecimal():
            found.append((TEST.findall(cells[3]), int(cells[4])))
    return found


def names(file: str) -> set[str]:
    """The functions of a file of tests, those of its classes too."""
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_fault_names_tests_that_are_there():
    assert len(rows()) >= 45
    known = {file: names(file) for tests, _ in rows() for file, _ in tests}
    for tests, _ in rows():
        assert tests
        assert [(file, name) for file, name in tests if name not in known[file]] == []


@pytest.mark.slow
def test_each_fault_has_at_least_as_many_cases_as_the_page_says():
    files = sorted({f"tests/{file}" for tests, _ in rows() for file, _ in tests})
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *files]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    cases = Counter(
        (match[1], match[2])
        for match in re.finditer(r"^tests/([\w/]+\.py)::(?:\w+::)?(\w+)", done.stdout, re.MULTILINE)
    )
    for tests, least in rows():
        assert sum(cases[test] for test in tests) >= least > 0, tests
