"""A finding is one script that installs pinned packages for itself and says what was seen."""

import os
import re
import shlex
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "findings"
OPENING = """\
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile PINS || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
"""
SCRIPTS = sorted(path for path in FOLDER.glob("*") if path.name != "README.md")


def test_there_are_findings_and_a_readme_that_says_how_to_run_one():
    assert (FOLDER / "README.md").is_file()
    assert len(SCRIPTS) >= 8
    shown = re.search(r"`bash findings/(\S+)`", (FOLDER / "README.md").read_text("utf-8"))
    assert shown is not None
    assert (FOLDER / shown[1]).is_file()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_finding_is_a_script_that_cleans_up_after_itself(script):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+\.sh", script.name)
    assert os.access(script, os.X_OK)
    text = script.read_text("utf-8")
    assert text.startswith("#!/usr/bin/env bash\n# ")
    commands = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    assert re.match(re.escape(OPENING).replace("PINS", "(.*)"), commands)
    assert not re.search(r"://|-url|/(home|opt|root|tmp|usr/(?!bin/env bash)|work)\b", text)
    assert "posenc" not in text.lower(), "a finding is about another library"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_finding_pins_what_it_installs_and_says_with_which_versions_what_was_seen(script):
    text = script.read_text("utf-8")
    (installed,) = re.findall(r"pip install --quiet --no-compile (.*) \|\| exit 2", text)
    assert text.count("install ") == 1
    pins = shlex.split(installed)
    assert all(re.fullmatch(r"[a-z0-9-]+(\[\w+\])?==\d+(\.\d+)+", pin) for pin in pins), pins
    assert not any(pin.startswith("torch==") for pin in pins[1:]), "torch comes first"
    said = re.fullmatch(
        r"#!.*\n# Seen: (?P<versions>.*), on 20\d\d-\d\d-\d\d\n#\n# Behaviour: .*\n(# .*\n)*"
        r"# Expected: .*\n(# .*\n)*#\n# Output:\n(#   .*\n)+set -euo pipefail\n(.*\n)*",
        text,
    )
    assert said is not None, "versions, date, behaviour, what was expected, and output"
    for pin in pins:
        name, _, version = pin.partition("==")
        assert f"{name.partition('[')[0]} {version}" in said["versions"]
