"""Users' functions, called as callers do.

In: a function by name, and the reference it should follow. Out: what it gives for any vectors at
any positions, and how it departs from a map of each row by its position alone. Start with
``roles`` (what a parameter is for), ``call_form`` (one way to call), ``form_choice`` (which one a
function has), ``serving`` (the function, called) and ``patterns`` (what must not change a row).
"""
