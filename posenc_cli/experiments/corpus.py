"""The text of the language-model task as character ids.

``text.txt`` in this folder is the beginning of Shakespeare's plays from Andrej Karpathy's char-rnn
(``data/tinyshakespeare/input.txt``), cut after a speech. It holds Coriolanus, and Richard III
without its last scenes. Both are in the public domain.

A model is judged only if it beats n-gram counts of short contexts. These use interpolated
Kneser–Ney (ICASSP 1995) with one discount per context length, estimated as Ney, Essen and Kneser do
(1994). Kneser–Ney is a stricter baseline than Witten–Bell: on the built-in text its loss is 1.62
nats from four characters and 1.61 from five, against 1.75 and 1.82.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.numerics.arrays import Integers, Reals


HELD_OUT = 10
"""The last one part in this many is not trained on."""


class Corpus(Record):
    """A text as ids of its sorted characters.

    ``training`` and ``held_out`` (n,) int64 are its first nine tenths and the rest. ``name`` is its
    name in messages.
    """

    name: str
    characters: str
    training: Integers
    held_out: Integers

    @property
    def vocabulary(self) -> int:
        """The number of distinct characters, including those of the held-out part."""
        return len(self.characters)

    @classmethod
    def own(cls) -> Corpus:
        """Return posenc's own text."""
        text = Path(__file__).with_name("text.txt").read_text("ascii")
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)  # (n,)
        characters, tokens = np.unique(points, return_inverse=True)
        tokens = tokens.astype(np.int64)
        first_held = len(tokens) - len(tokens) // HELD_OUT
        named = "".join(map(chr, characters))
        return cls("posenc's own text", named, tokens[:first_held], tokens[first_held:])


LONGEST_CONTEXT = 5
"""Longest context, in characters: on the built-in text, six predict no better than five."""

_DISCOUNT = 0.5  # if no gram occurs once, because the estimate needs one


def ngram_losses(
    corpus: Corpus, *, longest: int = LONGEST_CONTEXT, last: int | None = None
) -> tuple[float, ...]:
    """Return losses in nats per held-out character, from contexts of 0 to ``longest`` characters.

    Counts are of the training part, of at least ``longest`` characters. ``last`` limits the loss to
    that many last held-out characters, for tests that do not use all.
    """
    text = np.concatenate([corpus.training, corpus.held_out])  # (n,)
    scored = last or len(corpus.held_out)
    orders = _grams_by_context(text, corpus.vocabulary, longest + 1)
    probabilities = np.full(scored, 1 / corpus.vocabulary)
    losses = []
    for order, longer in pairwise(orders):
        training = len(corpus.training) - order.context
        occurrences = np.bincount(order.grams[:training], minlength=len(order.starts))
        losses.append(float(-np.log(_probabilities(order, occurrences, probabilities)).mean()))
        first = np.unique(longer.grams[: training - 1], return_index=True)[1]
        kinds_before = np.bincount(order.grams[1:][first], minlength=len(order.starts))
        probabilities = _probabilities(order, kinds_before, probabilities)
    return tuple(losses)


class _Grams(Record):
    """The grams of a text: a character and its context of ``context`` characters.

    ``grams`` (n - context,) has the number of the gram that ends at each place from ``context`` on.
    ``starts`` (grams,) has the number of each gram's context, in ascending order.
    """

    context: int
    grams: Integers
    starts: Integers


def _grams_by_context(text: Integers, vocabulary: int, longest: int) -> list[_Grams]:
    """Return the grams with contexts of 0, 1, … ``longest`` characters."""
    contexts = np.zeros(len(text), np.int64)
    orders = []
    for context in range(longest + 1):
        pairs, grams = np.unique(contexts * vocabulary + text[context:], return_inverse=True)
        orders.append(_Grams(context, grams, pairs // vocabulary))
        contexts = grams[:-1]
    return orders


def _probabilities(order: _Grams, counts: Integers, shorter: Reals) -> Reals:
    """Return the probability of each of the last characters after its context. Shape: (scored,).

    ``counts`` (grams,) are discounted. The mass that this frees follows the probabilities
    ``shorter`` (scored,), which use contexts that are one character shorter.
    """
    once, twice = (int((counts == times).sum()) for times in (1, 2))
    discount = once / (once + 2 * twice) if once else _DISCOUNT
    grams = order.grams[len(order.grams) - len(shorter) :]
    contexts = order.starts[grams]
    totals = np.bincount(order.starts, counts)[contexts]
    kinds = np.bincount(order.starts, counts > 0)[contexts]
    known = np.maximum(totals, 1)
    left = np.where(totals > 0, discount * kinds / known, 1)  # all of it after an unseen context
    probabilities: Reals = np.maximum(counts[grams] - discount, 0) / known + left * shorter
    return probabilities
