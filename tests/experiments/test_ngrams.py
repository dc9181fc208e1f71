"""The losses of n-grams, beside counts of strings and fractions."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from posenc_cli.experiments.corpus import Corpus, ngram_losses


def corpus_of(training: str, held_out: str) -> Corpus:
    characters = "".join(sorted(set(training + held_out)))
    parts = [
        np.array([characters.index(letter) for letter in part], np.int64)
        for part in (training, held_out)
    ]
    return Corpus("a text", characters, *parts)


def share(text: str, context: str, letter: str, letters: int, *, top: bool) -> Fraction:
    """Kneser–Ney, as its definition reads."""
    size = len(context) + 1
    counts: Counter[str] = Counter(
        text[place : place + size] for place in range(len(text) - size + 1)
    )
    if not top:
        before = {text[place : place + size + 1] for place in range(len(text) - size)}
        counts = Counter(gram[1:] for gram in before)
    once, twice = (sum(count == n for count in counts.values()) for n in (1, 2))
    discount = Fraction(once, once + 2 * twice) if once else Fraction(1, 2)
    shorter = (
        share(text, context[1:], letter, letters, top=False) if context else Fraction(1, letters)
    )
    followers = [count for gram, count in counts.items() if gram[:-1] == context]
    if not followers:
        return shorter
    kept = max(counts[context + letter] - discount, Fraction(0))
    return (kept + discount * len(followers) * shorter) / sum(followers)


TEXTS = [
    ("she sells sea shells by the sea shore", "the shells she sells"),
    ("abracadabra, abracadabra", "abra zebra"),  # a letter and contexts that are never met
    ("aaaaaaaaab", "ba"),
    ("aaabbaaabbaaabb", "abba"),  # no letter is met once
    ("ab" * 50, "abab"),  # one cycle
]


@pytest.mark.parametrize(("training", "held_out"), TEXTS)
def test_losses_are_those_of_kneser_and_ney(training, held_out):
    text, letters = training + held_out, len(set(training + held_out))
    for context, loss in enumerate(ngram_losses(corpus_of(training, held_out), longest=3)):
        shares = [
            share(training, text[place - context : place], text[place], letters, top=True)
            for place in range(len(training), len(text))
        ]
        expected = -sum(math.log(value) for value in shares) / len(shares)
        assert loss == pytest.approx(expected, rel=1e-12)  # sums of a few dozen float64 terms


def test_the_last_characters_are_told_alone():
    training, held_out = TEXTS[0]
    whole = ngram_losses(corpus_of(training, held_out))
    parts = [ngram_losses(corpus_of(training, held_out[:stop]), last=1) for stop in range(1, 21)]
    assert np.mean(parts, axis=0) == pytest.approx(whole, rel=1e-12)
