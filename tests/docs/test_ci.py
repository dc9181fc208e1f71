"""The snippets for CI systems: their commands run, and fail where the code is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from posenc_cli.records import replace
from tests.checks.rope import MUTANTS, vectors
from tests.checks.textbook import CASES, ladder

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
SNIPPETS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = sorted(
    {
        match.group(1).strip()
        for _, text in SNIPPETS
        for match in re.finditer(r"posenc (rope-check .*)$", text, re.MULTILINE)
    }
)


@pytest.fixture
def project(tmp_path):
    """A project whose code can be swapped for a wrong one."""

    def make(*, right: bool):
        name = "right_plain" if right else "base_million"
        (tmp_path / "my_rope.py").write_text(
            f"import sys; sys.path.insert(0, {str(MUTANTS.parent)!r})\n"
            f"from mutants import {name} as apply\n"
        )
        base = 5e5 if right else 1e4
        where, x = np.arange(300), vectors(300, 64)
        wide = replace(CASES["wide"].right, inv_freq=ladder(128, base))
        cos, sin = wide.tables(where)
        llama3 = CASES["llama3"].right.inv_freq
        code = CASES["plain"].right if right else replace(CASES["plain"].right, sign=-1)
        for file, values in {
            "cos": cos,
            "sin": sin,
            "inv_freq": llama3 if right else ladder(128, 5e5),
            "x": x,
            "y": code(x, where),
        }.items():
            np.save(tmp_path / f"{file}.npy", np.asarray(values, np.float32))

    return make


@pytest.mark.sweep(9)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_passes_right_code_and_fails_wrong_code(command, project, call, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    project(right=True)
    assert call(*command.split())[0] == 0
    project(right=False)
    assert call(*command.split())[0] == 1


@pytest.mark.slow
def test_the_junit_report_of_gitlab_is_written_when_the_check_fails(project, call, tmp_path):
    (command,) = [each for each in COMMANDS if "rope.xml" in each]
    project(right=False)
    assert call(*command.split())[0] == 1
    assert ET.parse(tmp_path / "rope.xml").getroot().get("failures") == "1"


def test_there_are_snippets_for_each_system():
    text = PAGE.read_text()
    for system in ("GitHub Actions", "GitLab", "pre-commit"):
        assert f"## {system}" in text
    assert len(COMMANDS) >= 6
    assert all("\t" not in snippet for language, snippet in SNIPPETS if language == "yaml")
