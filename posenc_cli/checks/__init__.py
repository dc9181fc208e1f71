"""Compare the results of other code with exact values.

In: a reference, and a subject from a file or a user's function. Out: a report with its verdict.
Start reading in :mod:`posenc_cli.checks.checking`.
"""
