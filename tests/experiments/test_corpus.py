"""The text that language models learn: its numbers, its parts, and what is no text."""

from pathlib import Path

import numpy as np

from posenc_cli.experiments import corpus as corpus_module
from posenc_cli.experiments.corpus import Corpus

OWN = Path(corpus_module.__file__).with_name("text.txt")


def test_its_own_text_is_small_plain_ascii():
    content = OWN.read_bytes()
    assert 280_000 < len(content) <= 290_000
    assert content.isascii()
    assert b"\r" not in content
    assert content.endswith(b".\n")


def test_the_last_tenth_is_held_out():
    corpus = Corpus.own()
    assert len(corpus.held_out) == len(OWN.read_bytes()) // 10
    assert corpus.training.dtype == corpus.held_out.dtype == np.int64
