"""How well counts of short contexts tell the next character: what a model must beat to be judged.

Interpolated Kneser–Ney (ICASSP 1995) with one discount for each length of context, estimated as
Ney, Essen and Kneser do (1994). It asks more of a model than Witten–Bell, whose loss on the own
text is 1.75 nats from four characters and 1.82 from five, where this has 1.62 and 1.61.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.experiments.corpus import Corpus
    from posenc_cli.numerics.arrays import Integers, Reals

LONGEST_CONTEXT = 5
"""Characters: of the own text six tell no more than five do."""

_DISCOUNT = 0.5  # where no gram was met once, from which it is estimated


def ngram_losses(
    corpus: Corpus, *, longest: int = LONGEST_CONTEXT, last: int | None = None
) -> tuple[float, ...]:
    """The loss in nats a held-out character from contexts of 0, 1, … ``longest`` characters.

    Counts are of the training part, of at least ``longest`` characters. ``last`` is how many of the
    last held-out characters are told, where those of a test are not all.
    """
    text = np.concatenate([corpus.training, corpus.held_out])  # (n,)
    told = last or len(corpus.held_out)
    orders = _orders(text, corpus.vocabulary, longest + 1)
    shares = np.full(told, 1 / corpus.vocabulary)
    losses = []
    for order, longer in pairwise(orders):
        training = len(corpus.training) - order.context
        met = np.bincount(order.grams[:training], minlength=len(order.starts))
        losses.append(float(-np.log(_shares(order, met, shares)).mean()))
        first = np.unique(longer.grams[: training - 1], return_index=True)[1]
        kinds_before = np.bincount(order.grams[1:][first], minlength=len(order.starts))
        shares = _shares(order, kinds_before, shares)
    return tuple(losses)


class _Grams(Record):
    """The grams of a text: a character behind a context of so many characters.

    ``grams`` (n - context,) has the number of that which ends at each place from ``context`` on,
    ``starts`` (grams,) the number of each one's context, in which they are sorted.
    """

    context: int
    grams: Integers
    starts: Integers


def _orders(text: Integers, vocabulary: int, longest: int) -> list[_Grams]:
    """The grams with contexts of 0, 1, … ``longest`` characters."""
    contexts = np.zeros(len(text), np.int64)
    orders = []
    for context in range(longest + 1):
        pairs, grams = np.unique(contexts * vocabulary + text[context:], return_inverse=True)
        orders.append(_Grams(context, grams, pairs // vocabulary))
        contexts = grams[:-1]
    return orders


def _shares(order: _Grams, counts: Integers, shorter: Reals) -> Reals:
    """The share of each of the last characters (told,) behind its context.

    ``counts`` (grams,) are discounted; what that leaves is shared as behind contexts of one
    character less, whose shares are ``shorter`` (told,).
    """
    once, twice = (int((counts == times).sum()) for times in (1, 2))
    discount = once / (once + 2 * twice) if once else _DISCOUNT
    grams = order.grams[len(order.grams) - len(shorter) :]
    contexts = order.starts[grams]
    totals = np.bincount(order.starts, counts)[contexts]
    kinds = np.bincount(order.starts, counts > 0)[contexts]
    known = np.maximum(totals, 1)
    left = np.where(totals > 0, discount * kinds / known, 1)  # all behind a context never met
    shares: Reals = np.maximum(counts[grams] - discount, 0) / known + left * shorter
    return shares
