"""Whatever text names an option: a command has it."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import posenc_cli
from posenc_cli.cli.app import application
from posenc_cli.cli.command_line import COMMANDS, function_of
from posenc_cli.errors import PosencError
from posenc_cli.rotary.subject import of_width
from tests.checks import rope

OF_OTHER_PROGRAMS = {
    "cli/help/completion.py": "fish's complete",
    "cli/help/usage.py": "pip",
    "configs/spelling.py": "engines",
    "render/html/html_plots.py": "variables of CSS",
    "errors.py": "names that users of other programs try, and those of posenc for them",
}
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def options_of(name):
    command = application([name]).commands[name]
    return {"--help", *(flag for each in command.params for flag in each.opts)}


def named_in(tree):
    texts = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
    return {flag for text in texts if isinstance(text, str) for flag in _OPTION.findall(text)}


@pytest.mark.long
def test_every_option_that_a_text_names_is_one_of_some_command():
    known = {"--version"}.union(*(options_of(name) for name in COMMANDS))
    package = Path(posenc_cli.__file__).parent
    for file in package.rglob("*.py"):
        if file.relative_to(package).as_posix() not in OF_OTHER_PROGRAMS:
            assert named_in(ast.parse(file.read_text("utf-8"))) <= known, file


def test_errors_and_hints_of_a_command_name_its_own_options():
    for name in COMMANDS:
        source = inspect.getsource(inspect.getmodule(function_of(name)))
        calls = (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call))
        errors = {error.__name__ for error in PosencError.__subclasses__()}
        for call in calls:
            if isinstance(call.func, ast.Name) and call.func.id in errors:
                assert named_in(call) <= options_of(name), ast.unparse(call)


def test_a_reference_of_another_width_is_told_by_options_that_give_it():
    words = of_width(rope.reference("rope", dim=48, partial=0.5), 24).options.split()
    assert words == ["--dim", "48", "--set", "partial=1"]
    assert {word for word in words if word.startswith("--")} <= options_of("rope-check")
