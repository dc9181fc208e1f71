"""Experiments: small transformers trained short and tested long, one for each encoding.

In: a request: encodings, a task, lengths and seeds. Out: losses at each length, and what may be
said of them. Start with ``request``, then ``run`` (one job); ``tasks`` lists the tasks,
``schedulers`` runs the jobs, and ``summary`` says what their results show.
"""
