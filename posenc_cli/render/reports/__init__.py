"""Report checks, comparisons, plans and experiments, for readers and for programs.

In: the record of a report. Out: text, JSON, JUnit XML, GitHub annotations, Markdown, and figures of
reports (``deviations``, ``differences``). Start with ``report`` (rope-check) and ``ci_forms``, the
CI forms of every check. The first lines of a report are an ``Answer`` (``render/typesetting``).
"""
