"""What other programs read of the repository: workflows, the action, forms, the citation."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from posenc_cli import __version__
from tests.processes import ran

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
SUPPORTED = re.search(r"^SUPPORTED := (.*)$", MAKEFILE, re.MULTILINE)[1].split()


def loaded(path):
    return yaml.safe_load((ROOT / path).read_text())


CI, RELEASE = (loaded(ROOT / ".github" / "workflows" / name) for name in ("ci.yml", "release.yml"))
JOBS = {
    f"{path.name}: {name}": job for path in WORKFLOWS for name, job in loaded(path)["jobs"].items()
}


def steps(job, key):
    return [step[key] for step in job["steps"] if key in step]


def test_commands_of_workflows_are_targets_of_make_and_files_that_are_there():
    targets = set(re.search(r"^\.PHONY: demo (.*)$", MAKEFILE, re.MULTILINE)[1].split())
    commands = [command for job in JOBS.values() for command in steps(job, "run")]
    asked = {command.split()[1] for command in commands if command.startswith("make ")}
    assert asked == {"test", "package"}
    assert asked <= targets
    for command in commands:
        for variable in re.findall(r" ([A-Z]+)=", command):
            assert re.search(rf"\b{variable}\b", MAKEFILE), variable
    others = [command for command in commands if not command.startswith("make ")]
    programs = [command.split()[0] for command in others]
    assert programs == [".ci/run", "python", "test", ".ci/try", "docker"]
    for program in (".ci/run", ".ci/try"):
        assert os.access(ROOT / program, os.X_OK)


def test_every_wheel_is_tried_on_its_platform_before_it_is_published():
    hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")
    from tools.package import ZIG_TARGETS

    assert ZIG_TARGETS.keys() == hatch_build.TARGETS.keys()
    matrix = RELEASE["jobs"]["try"]["strategy"]["matrix"]
    machines = {
        "ubuntu-latest": "linux-x86_64",
        "ubuntu-24.04-arm": "linux-aarch64",
        "macos-latest": "darwin-arm64",
        "macos-15-intel": "darwin-x86_64",
    }
    tried = {machines[machine] for machine in matrix["runner"]}
    for more in matrix["include"]:
        assert more["image"].endswith("-alpine")
        tried.add(f"{machines[more['runner']]}-musl")
    assert tried == ZIG_TARGETS.keys()
    assert RELEASE["jobs"]["publish"]["needs"] == ["build", "try"]


def test_nothing_is_published_that_was_not_tested_and_changes_are_packaged_too():
    built = steps(RELEASE["jobs"]["build"], "run")
    assert [command.split()[:2] for command in built[1:]] == [["make", "test"], ["make", "package"]]
    assert [command.split()[:2] for command in steps(CI["jobs"]["package"], "run")] == [
        ["make", "package"]
    ]


def test_every_supported_python_is_tried_with_every_set_of_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = re.findall(r":: (3\.\d+)'", str(project["classifiers"]))
    matrix = CI["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == classified == SUPPORTED
    assert matrix["versions"] == ["lowest", "locked", "newest"]
    assert "$(foreach set,lowest locked newest,on-$(version)-$(set))" in MAKEFILE
    cells = re.findall(r" on-([\d.]+)-(\w+)", (ROOT / ".ci" / "run").read_text())
    assert [version for version, _ in cells] == SUPPORTED
    assert {versions for _, versions in cells} == {*matrix["versions"]}


def test_ci_runs_every_test_and_requires_the_pythons_that_it_installs():
    gate = (ROOT / ".ci" / "run").read_text()
    assert "make coverage\nmake sweeps\n" in gate
    assert "SHARE" not in gate
    assert gate.index("\nmake site ") > gate.index("make sweeps")  # what it installs meets no test
    chosen = {
        target: re.search(rf"^{target}:.*\n(?:\t.*\n)*?\t.* -m \"(.*?)\"", MAKEFILE, re.MULTILINE)[
            1
        ]
        for target in ("coverage", "sweeps")
    }
    assert chosen == {"coverage": "not slow", "sweeps": "slow or hypothesis"}
    required = re.search(r'REQUIRED="(.*)"', gate)[1].split()
    (installed,) = (
        step["with"]["python-version"].split()
        for step in CI["jobs"]["check"]["steps"]
        if "setup-python" in step.get("uses", "")
    )
    assert required == sorted(installed) == SUPPORTED[:3]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_a_limit_of_time_no_kept_credentials_and_actions_of_one_version(name):
    job = JOBS[name]
    assert job["timeout-minutes"] <= 60
    for step in job["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_only_what_publishes_may_do_more_than_read_and_it_runs_no_code():
    for workflow in (CI, RELEASE):
        assert workflow["permissions"] == {"contents": "read"}
    allowed = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert allowed == {"release.yml: publish": {"id-token": "write"}}
    publish = RELEASE["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert steps(publish, "run") == []
    assert not [use for use in steps(publish, "uses") if "checkout" in use]


def test_no_expression_of_github_stands_in_a_command():
    scripts = [command for job in JOBS.values() for command in steps(job, "run")]
    scripts += steps(loaded("action.yml")["runs"], "run")
    assert len(scripts) == 11
    assert not [script for script in scripts if "${{" in script]


def test_a_release_has_the_tag_of_its_version(tmp_path):
    (script,) = [
        step["run"] for step in RELEASE["jobs"]["build"]["steps"] if "TAG" in step.get("env", {})
    ]
    (tmp_path / "python").symlink_to(sys.executable)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for tag, status in {f"v{__version__}": 0, f"v{__version__}1": 1}.items():
        env = {**os.environ, "TAG": tag, "PATH": path}
        assert subprocess.call(["bash", "-ec", script], cwd=ROOT, env=env) == status


def test_every_input_of_the_action_reaches_its_script_by_the_environment():
    action = loaded("action.yml")
    env = action["runs"]["steps"][-1]["env"]
    reached = {f"INPUT_{name.upper().replace('-', '_')}": name for name in action["inputs"]}
    del reached["INPUT_WORKING_DIRECTORY"]
    assert env == {key: f"${{{{ inputs.{name} }}}}" for key, name in reached.items()}


def test_the_action_installs_posenc_with_a_python_of_its_own(tmp_path):
    python, install, _ = loaded("action.yml")["runs"]["steps"]
    used = {
        step["uses"]
        for job in JOBS.values()
        for step in job["steps"]
        if "actions/setup-python@" in step.get("uses", "")
    }
    assert {python["uses"]} == used
    assert python["with"]["python-version"] in SUPPORTED
    assert python["with"]["update-environment"] is False
    asked = install["env"]["PYTHON"]
    assert asked == f"${{{{ steps.{python['id']}.outputs.python-path }}}}"
    own = tmp_path / "own"
    own.write_text('#!/bin/sh\nmkdir -p "$3/bin"; ln -s "$0" "$3/bin/python"; echo "$@"\n')
    own.chmod(0o755)
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path)}
    environment = {**env, "PYTHON": str(own), "SOURCE": "posenc"}
    done = ran("bash", "-ec", install["run"], env=environment, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "-m pip install --quiet posenc"


def test_the_citation_is_of_this_version_and_its_day():
    citation = loaded("CITATION.cff")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert citation["version"] == __version__
    assert f"\n## [{__version__}] - {citation['date-released']}\n" in changelog


def test_nothing_that_posenc_imports_itself_opens_a_connection():
    """As SECURITY.md says."""
    imported = {
        name
        for path in (ROOT / "posenc_cli").rglob("*.py")
        for name in re.findall(r"^ *(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
    }
    assert "numpy" in imported
    assert not imported & {"socket", "ssl", "http", "urllib", "ftplib", "requests", "httpx"}
