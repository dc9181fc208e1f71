"""Checks of what others computed, against the exact values.

In: a reference, and a subject from a file or a user's function. Out: a report with its verdict.
Start reading in :mod:`posenc_cli.checks.checking`.
"""
