"""Find settings for a context longer than the trained one.

In: a model's config and a length. Out: each recipe, and its effects on the frequencies. Start with
``planner.plan_length``, which tries the recipes, or says what limits models that have none.
``cosine_sums`` finds the bases that keep the sum of cosines at 0 or more.
"""
