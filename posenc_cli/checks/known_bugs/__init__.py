"""Table of known bugs: one row for each bug, in the file of its kind.

In: the reference and the values of a subject. Out: the changes of the reference that a bug makes.
`posenc_cli.checks.search` tries them, `posenc_cli.vectors` applies them, docs and tests list them.
Start reading in :mod:`posenc_cli.checks.known_bugs.bug`.
"""
