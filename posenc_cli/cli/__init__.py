"""The command line: one file a command, options derived from the schemes' declarations."""
