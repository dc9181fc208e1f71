"""The commands, one file each: its options, one call of a lower floor, and what it prints.

In: values of options, made by `posenc_cli.cli.app`. Out: an exit status, None where it is 0.
Start reading in :mod:`posenc_cli.cli.commands.schemes`, which is short.
"""
