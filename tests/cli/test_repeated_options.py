"""An option given twice: refused with two values, taken with one, whatever the command."""

import pytest

from posenc_cli.cli.app import application
from posenc_cli.cli.command_line import COMMANDS
from posenc_cli.errors import InvalidInput


def command_named(name):
    return application([name]).commands[name]


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_two_values_is_refused_by_every_command(name):
    command = command_named(name)
    tried = 0
    for option in command.params:
        if option.param_type_name != "option" or option.is_flag or option.multiple:
            continue
        tried += 1
        for flag in option.opts:
            values = [["one"] * option.nargs, ["two"] * option.nargs]
            with pytest.raises(InvalidInput, match=r"given as 'one.*' and as 'two.*'") as refused:
                command.make_context(name, [flag, *values[0], flag, *values[1]])
            assert refused.value.message.startswith(max(option.opts, key=len) + ":")
            assert refused.value.status == 2
    assert tried  # --color at least


def test_the_two_names_of_an_option_are_one_option(refused):
    twice = "posenc: error: --model: given as 'llama-3.1-8b' and as 'gpt2'; it takes one\n"
    assert refused("generate", "-m", "llama-3.1-8b", "--model=gpt2") == twice
    tables = (*("--tables", "a", "b") * 2, "--tables=c", "b")
    assert "--tables: given as 'a b' and as 'c b'" in refused("rope-check", "-s", "rope", *tables)


def test_the_same_again_is_no_contradiction(call):
    once = call("spectrum", "-s", "rope", "-l", "64", "--color", "never", "-q")
    again = call(
        *("spectrum", "-s", "rope", "-l", "64", "--len=64", "--color", "never"),
        *("--color", "never", "-q", "-q", "--quiet"),
    )
    assert once[0] == 0
    assert again == once
