"""Explain why a subject differs from its reference.

In: a subject and its findings. Out: a cause that reproduces every wrong value, or ``unknown``.
Known bugs are proposed from a sample of rows, then compared with all of them.
Start reading in :mod:`posenc_cli.diagnosis.diagnose`.
"""
