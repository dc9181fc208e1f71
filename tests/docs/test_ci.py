"""The snippets for CI systems: their commands run, and fail where the code is wrong."""

import json
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from posenc_cli import __version__
from posenc_cli.records import replace
from tests.checks.rope import MUTANTS, vectors
from tests.diagnosis.textbook import CASES, ladder
from tests.processes import ran

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

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
    """A project, its environment beside it, whose code can be swapped for a wrong one."""
    (tmp_path / ".venv").symlink_to(sys.prefix)

    def make(*, right: bool):
        name = "right_plain" if right else "base_odd"
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
        inv_freq = llama3 if right else ladder(128, 5e5)
        arrays = {"cos": cos, "sin": sin, "inv_freq": inv_freq, "x": x, "y": code(x, where)}
        for file, values in arrays.items():
            np.save(tmp_path / f"{file}.npy", np.asarray(values, np.float32))

    return make


@pytest.mark.long
@pytest.mark.sweep(9)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_passes_right_code_and_fails_wrong_code(command, project, call, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    project(right=True)
    assert call(*command.split())[0] == 0
    project(right=False)
    assert call(*command.split())[0] == 1


@pytest.fixture
def action(tmp_path):
    """The arguments that the action's script gives posenc for some inputs."""
    declared = yaml.safe_load((PAGE.parents[1] / "action.yml").read_text())
    script = declared["runs"]["steps"][-1]
    program = tmp_path / "posenc" / "bin" / "posenc"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    program.chmod(0o755)

    def arguments(inputs):
        values = {name: str(each.get("default", "")) for name, each in declared["inputs"].items()}
        assert inputs.keys() <= values.keys()
        values |= {name: str(value) for name, value in inputs.items()}
        env = {
            variable: values[expression.removeprefix("${{ inputs.").removesuffix(" }}")]
            for variable, expression in script["env"].items()
        }
        bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script["run"])
        environment = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), **env}
        return ran(*bash, env=environment, cwd=tmp_path).stdout.split("\0")[:-1]

    return arguments


@pytest.mark.long
@pytest.mark.parametrize("which", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_action_passes_right_code_and_fails_wrong_code(
    which, action, project, call, monkeypatch
):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    snippets = [text for language, text in SNIPPETS if language == "yaml"]
    parts = [part for text in snippets for part in text.split("- uses: OWNER/posenc@")[1:]]
    assert {part.partition("\n")[0] for part in parts} == {f"v{__version__}"}
    inputs = yaml.safe_load(parts[which].partition("\n")[2])["with"]
    arguments = action({**inputs, "python": sys.executable} if "impl" in inputs else inputs)
    project(right=True)
    assert call(*arguments)[0] == 0
    project(right=False)
    status, out, _ = call(*arguments)
    assert status == 1
    assert out.startswith("::error ")


def test_inputs_of_the_action_are_never_read_as_shell(action, tmp_path):
    hostile = "$(touch made) `touch made`; touch made; \"' *"
    given = {"scheme": hostile, "tables": f"{hostile}\n--len", "arguments": hostile}
    assert action(given) == [
        *("rope-check", "--format", "github", f"--scheme={hostile}"),
        *("--tables", hostile, "--len", hostile),
    ]
    assert not (tmp_path / "made").exists()


def test_the_hook_of_pre_commit_fails_where_a_config_leaves_its_base_out(call, tmp_path):
    (hook,) = yaml.safe_load((PAGE.parents[1] / ".pre-commit-hooks.yaml").read_text())
    (used,) = [
        repository
        for language, text in SNIPPETS
        if language == "yaml" and text.startswith("repos:")
        for repository in yaml.safe_load(text)["repos"]
        if repository["repo"] != "local"
    ]
    assert (used["rev"], used["hooks"][0]["id"]) == (f"v{__version__}", hook["id"])
    for pattern in (hook["files"], used["hooks"][0]["files"]):
        files = ["models/a/config.json", "models/config.json.bak", "models/a/config_json"]
        assert [file for file in files if re.search(pattern, file)] == files[:1]
    complete = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    complete |= {"num_hidden_layers": 2, "max_position_embeddings": 128, "rope_theta": 10000.0}
    names = ["a.json", "b.json"]
    program, *arguments = hook["entry"].split()
    assert program == "posenc"
    for name in names:
        (tmp_path / name).write_text(json.dumps(complete))
    status, out, err = call(*arguments, *names)
    assert (status, out, err) == (0, "", "")
    del complete["rope_theta"]
    (tmp_path / "b.json").write_text(json.dumps(complete))
    status, out, err = call(*arguments, *names)
    reports = [line for line in out.splitlines() if "model type" in line]
    one = "'b.json': model type llama: rope; 1 doubtful line"
    assert reports == [one], "of what fails alone"
    warned = "posenc: warning: --strict: 'b.json': default used: rope_theta\n"
    assert (status, err) == (1, warned)


@pytest.mark.long
def test_a_hook_of_ones_own_runs_the_function_in_the_environment_of_the_project(
    project, call, tmp_path, monkeypatch
):
    (text,) = [text for _, text in SNIPPETS if "repo: local" in text]
    program = tmp_path / "hook" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho ModuleNotFoundError >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "hook"))  # as pre-commit does
    project(right=True)
    posenc, *arguments = yaml.safe_load(text)["repos"][0]["hooks"][0]["entry"].split()
    assert posenc == "posenc"
    status, _, err = call(*arguments)
    assert (status, err) == (0, "")


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
