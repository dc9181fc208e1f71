"""How many examples a property is tried on."""

from hypothesis import settings


def examples(count: int) -> settings:
    """Settings of a property: ``count`` examples in `make check`, a twentieth in `make test`.

    A property without it is tried on the 100 examples of Hypothesis, or on 5.
    """
    return settings(max_examples=max(2, count * settings().max_examples // 100))
