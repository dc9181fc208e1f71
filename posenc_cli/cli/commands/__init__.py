"""The commands, one file each: its options, one call into a lower layer, and what it prints.

In: values of options, made by `posenc_cli.cli.app`. Out: an exit status, None for 0. Start reading
in :mod:`posenc_cli.cli.commands.schemes`, which is short.
"""
