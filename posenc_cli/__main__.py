"""``python -m posenc_cli``: the same as the ``posenc`` command."""

from posenc_cli.cli.exits import entry_point

if __name__ == "__main__":
    entry_point()
