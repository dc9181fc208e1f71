"""Schemes of positional encoding: declarations and pure formulas.

In: the parameters of a scheme. Out: its content (frequencies, rows, scores). Start with ``declare``
and ``parameters``, then ``rotary``; ``inverse`` and ``mistakes`` are what schemes have beside
formulas. The RoPEs for longer contexts are in ``context_extension``.
"""
