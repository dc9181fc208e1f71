"""Why a subject differs from its reference.

In: a subject and its findings. Out: a cause that reproduces every wrong value, or ``unknown``.
A known bug is proposed from a sample of rows and then compared with all of them (`bug_search.named`).
Start reading in :mod:`posenc_cli.diagnosis.diagnose`.
"""
