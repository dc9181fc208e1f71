"""``posenc completion``: scripts that let a shell complete commands and options."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Annotated

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import argument, completed_from
from posenc_cli.errors import InvalidInput

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

SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The completion script of each shell."""


def completion(
    console: Console,
    shell: Annotated[
        str | None,
        argument(
            metavar="[SHELL]",
            help=f"{'|'.join(SHELLS)} [default: that of $SHELL]",
            autocompletion=completed_from(SHELLS),
        ),
    ] = None,
) -> None:
    """Print the script for shell completion.

    Once your shell has run the script, it completes commands, options, schemes, models, parameters,
    formats and files. For the current bash session only, run eval "$(posenc completion bash)". zsh
    loads _posenc from a folder in its fpath, and fish loads posenc.fish from
    ~/.config/fish/completions.

    Examples:
      posenc completion bash >> ~/.bashrc
      posenc completion zsh > _posenc
      posenc completion fish > posenc.fish
    """
    name = PurePath(os.environ.get("SHELL", "")).name if shell is None else shell
    if name not in SHELLS:
        given = "" if shell is None else f" {shell!r}"
        raise InvalidInput(f"SHELL{given}: must be one of {', '.join(SHELLS)}")
    console.result(SHELLS[name])
