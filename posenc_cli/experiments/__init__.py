"""Experiments: small transformers, one per encoding, trained short and tested at longer lengths.

In: a request: encodings, a task, lengths and seeds. Out: losses at each length, and the conclusions
they support. Start with ``request``, then ``run`` (one job); ``tasks`` lists the tasks,
``job_processes`` runs the jobs, and ``summary`` draws the conclusions.
"""
