"""``posenc completion``: scripts that let a shell complete commands and options."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import completed_from, one_of, option
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.records import Record


class ShellFiles(Record):
    """A completion script, its file, and the line in the startup file that loads it."""

    text: str
    script: str
    startup: str = ""
    line: str = ""


# Typer answers shells that set these variables. The scripts are posenc's own, for both its names.
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

_ZSH = """\
#compdef posenc posenc-cli

_posenc_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _POSENC_COMPLETE=complete_zsh posenc)
}

compdef _posenc_completion posenc posenc-cli"""

_FISH = """\
function __posenc_complete
    env _POSENC_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) posenc
end
complete --command posenc --no-files --arguments "(__posenc_complete get-args)" \\
    --condition "__posenc_complete is-args"
complete --command posenc-cli --wraps posenc"""

SHELLS = {
    "bash": ShellFiles(
        _BASH,
        "~/.bash_completions/posenc.sh",
        "~/.bashrc",
        "source ~/.bash_completions/posenc.sh",
    ),
    "zsh": ShellFiles(
        _ZSH,
        "~/.zfunc/_posenc",
        "~/.zshrc",
        "fpath+=~/.zfunc; autoload -Uz compinit; compinit",
    ),
    "fish": ShellFiles(_FISH, "~/.config/fish/completions/posenc.fish"),
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
        bool, option("--install", help="install the script where the shell finds it")
    ] = False,
) -> None:
    """Print or install shell completion.

    Completes commands, options, schemes, models, parameters, formats and files. Without --install,
    posenc prints the script. With --install, it writes the script to a file and adds a line to the
    shell's startup file, unless the line is already there.

    Examples:
      posenc completion bash --install
      posenc completion zsh >_posenc
      eval "$(posenc completion bash)"
    """
    name = PurePath(os.environ.get("SHELL", "")).name if shell is None else shell
    if shell is not None:
        one_of("SHELL", shell, SHELLS)
    if name not in SHELLS:
        raise InvalidInput(f"SHELL: give one of {', '.join(SHELLS)}")
    if install:
        _install(name, console)
    else:
        print(SHELLS[name].text)


def _install(name: str, console: Console) -> None:
    """Write a shell's script and its startup line, and print which files were written.

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
    _write(script, files.text.encode())
    if not known:
        _write(startup, text + b"\n" * (text[-1:] not in (b"", b"\n")) + line)
    console.done(f"wrote {quoted_name(script)}: completion for {name}")
    undo = f"rm {files.script}"
    if files.startup:
        said = "is unchanged, and has" if known else "has a new last line"
        console.done(f"{quoted_name(startup)} {said}: {files.line}")
        undo += f", and that line out of {files.startup}"
    console.done(f"{name} completes posenc after a restart; to undo it: {undo}")


def _write(path: Path, text: bytes) -> None:
    """Write lines to a file, and make its folder if missing.

    Raises: Unavailable.
    """
    from posenc_cli.files.atomic import replacing

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(text + b"\n")
