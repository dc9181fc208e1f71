"""What to set for a context longer than the one that a model was trained on.

In: a model's config and a length. Out: each recipe, and what it does to the frequencies. Start with
``planner.plan_length``, which tries the recipes, or says what bounds the models that have none;
``cosine_sums`` finds the bases that keep the sum of cosines at 0 or more.
"""
