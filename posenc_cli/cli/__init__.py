"""The command line: options that commands share, the console, and where errors become statuses.

In: the words of a command line. Out: text, files and an exit status. One file a command lies in
`commands`, pages of help and completion in `help`. Start reading in :mod:`posenc_cli.cli.app`.
"""
