"""Reports of checks, comparisons, plans and experiments, for readers and for programs.

In: the record of a report. Out: text, JSON, JUnit XML, GitHub annotations, Markdown, and figures of
reports (``deviations``, ``differences``). Start with ``answer``, the first lines of a report. Then
read ``report`` (rope-check) and ``ci_forms``, the CI forms of every check.
"""
