"""Why a subject differs from its reference.

In: a subject and its findings. Out: a cause that reproduces every wrong value, or ``unknown``.
A known bug is proposed from a sample of rows, then compared with all (`bug_search.named`).
Start reading in :mod:`posenc_cli.diagnosis.diagnose`.
"""
