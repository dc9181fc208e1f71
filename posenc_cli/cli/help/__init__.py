"""What surrounds commands: help pages, usage errors, completion, the version.

In: the declarations of commands, or an error. Out: text. Start reading in
:mod:`posenc_cli.cli.help.help_page`.
"""
