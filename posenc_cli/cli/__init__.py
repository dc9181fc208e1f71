"""The command line: options shared by commands, the console, and how errors become exit statuses.

In: the words of a command line. Out: text, files and an exit status. `commands` has one file per
command; `help` has the help pages and shell completion. Start reading in :mod:`posenc_cli.cli.app`.
"""
