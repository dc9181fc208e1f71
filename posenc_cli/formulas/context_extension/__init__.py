"""RoPEs for contexts longer than the trained one: rules that change the frequencies.

In: the parameters of a rule. Out: the frequencies and the attention factor. Start with ``scaled``,
which has the simple rules and what the others share. ``stretches`` lists the rules that apply to a
trained RoPE at test time.
"""
