"""``posenc completion``: what lets a shell complete commands, options and their values."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.exits import COMPLETION
from posenc_cli.cli.options import completed_from, one_of, option
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.records import Record


class ShellFiles(Record):
    """Where a shell finds the script of completions, and the line that lets its start read it.

    ``other_name`` ends Typer's script: what it needs to say of ``posenc-cli``, the same program.
    """

    script: str
    startup: str = ""
    line: str = ""
    other_name: str = ""


_BASH = """\
_posenc_completion() {
    local IFS=$'\\n' word last= words=()
    # Bash ends words at = and :, too; these are what posenc is given.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ $last && ( $word == [=:]* || ( $word && $last == *[=:] ) ) ]]; then
            last+=$word
            words[${#words[@]}-1]=$last
        else
            last=$word
            words+=("$word")
        fi
    done
    COMPREPLY=( $( env COMP_WORDS="$(printf '%s ' "${words[@]}")" \\
                   COMP_CWORD=$(( ${#words[@]} - 1 )) \\
                   _POSENC_COMPLETE=complete_bash $1 ) )
    COMPREPLY=( "${COMPREPLY[@]#"${last%"${last##*[=:]}"}"}" )
    if [[ ${COMPREPLY[*]} == *= ]]; then compopt -o nospace; fi
}

complete -o default -F _posenc_completion posenc posenc-cli"""

SHELLS = {
    "bash": ShellFiles(
        "~/.bash_completions/posenc.sh",
        "~/.bashrc",
        "source ~/.bash_completions/posenc.sh",
    ),
    "zsh": ShellFiles(
        "~/.zfunc/_posenc",
        "~/.zshrc",
        "fpath+=~/.zfunc; autoload -Uz compinit; compinit",
        other_name=" posenc-cli",
    ),
    "fish": ShellFiles(
        "~/.config/fish/completions/posenc.fish",
        other_name="\ncomplete --command posenc-cli --wraps posenc",
    ),
}


def completion(
    console: Console,
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="[SHELL]",
            help=f"{'|'.join(SHELLS)} [default: that of $SHELL]",
            autocompletion=completed_from(SHELLS),
        ),
    ] = None,
    *,
    install: Annotated[
        bool, option("--install", help="write it where the shell finds it, and say where")
    ] = False,
) -> None:
    """Let a shell complete what you type.

    Commands, options, schemes, models, parameters, formats and files. Without --install, prints the
    script that does it. With it the script becomes a file, and a line that reads it is added to the
    file that the shell starts with, where it is not there yet.

    Examples:
      posenc completion bash --install
      posenc completion zsh >_posenc
      eval "$(posenc completion bash)"
    """
    name = PurePath(os.environ.get("SHELL", "")).name if shell is None else shell
    if shell is not None:
        one_of("SHELL", shell, SHELLS)
    if name not in SHELLS:
        raise InvalidInput(f"SHELL: name it, one of {', '.join(SHELLS)}")
    if install:
        _install(name, console)
    else:
        print(_script(name))


def _install(name: str, console: Console) -> None:
    """Write a shell's script, and the line that reads it, and say which files those are.

    Raises: Unavailable, OSError; nothing is written then.
    """
    from posenc_cli.files.atomic import preflight

    files = SHELLS[name]
    script, startup = (Path(file).expanduser() for file in (files.script, files.startup))
    line = files.line.encode()
    text = startup.read_bytes() if files.startup and startup.exists() else b""
    known = not files.startup or line in text.splitlines()
    if not known:
        preflight(startup)
    _write(script, _script(name).encode())
    if not known:
        _write(startup, text + b"\n" * (text[-1:] not in (b"", b"\n")) + line)
    console.done(f"wrote {quoted_name(script)}: completion for {name}")
    undo = f"rm {files.script}"
    if files.startup:
        said = "is unchanged, and has" if known else "has a new last line"
        console.done(f"{quoted_name(startup)} {said}: {files.line}")
        undo += f", and that line out of {files.startup}"
    console.done(f"{name} completes posenc from its next start on; to undo it: {undo}")


def _script(shell: str) -> str:
    """What a shell is to run, for both names of the program."""
    if shell == "bash":
        return _BASH
    # Typer's own commands for it are options of the program, which every help would list.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="posenc", complete_var=COMPLETION, shell=shell)
    # A zsh that has read the file's first line alone knows both names, too.
    script = script.replace("#compdef posenc", "#compdef posenc posenc-cli")
    return f"{script}{SHELLS[shell].other_name}"


def _write(path: Path, text: bytes) -> None:
    """Write lines to a file, in a folder that is made where it is not there.

    Raises: Unavailable.
    """
    from posenc_cli.files.atomic import replacing

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(text + b"\n")
