"""Schemes of positional encoding: declarations and pure formulas.

In: the parameters of a scheme. Out: its content (frequencies, rows, scores). Start with ``declare``
and ``parameters``, then ``rotary``. Besides formulas, schemes have ``inverse`` functions and
``mistakes`` (known bugs). The RoPEs for longer contexts are in ``context_extension``.
"""
