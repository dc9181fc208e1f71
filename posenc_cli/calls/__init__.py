"""Call users' functions as their callers do.

In: a function by name, and the reference that it should match. Out: its results for any vectors at
any positions, and its faults beyond a rotation of each row by its position. Start with ``roles``
(what a parameter is for), ``call_form`` (one way to call), ``form_choice`` (the form that fits),
``serving`` (the function, called) and ``patterns`` (calls that must give equal results).
"""
