"""The text that language models learn: its numbers, its parts, and what is no text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.experiments import corpus as corpus_module
from posenc_cli.experiments.corpus import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = Path(corpus_module.__file__).with_name("text.txt")


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[[bytes], Corpus]:
    def corpus(content: bytes) -> Corpus:
        path = tmp_path / "text.txt"
        path.write_bytes(content)
        return Corpus.of_file(str(path))

    return corpus


def text_of(corpus: Corpus) -> str:
    tokens = np.concatenate([corpus.training, corpus.held_out])
    return "".join(corpus.characters[token] for token in tokens)


def test_its_own_text_is_the_file_that_ships_letter_for_letter() -> None:
    corpus = Corpus.own()
    assert text_of(corpus) == OWN.read_text("ascii")
    assert corpus.digest == hashlib.sha256(OWN.read_bytes()).hexdigest()


def test_its_own_text_is_small_plain_ascii() -> None:
    content = OWN.read_bytes()
    assert 280_000 < len(content) <= 290_000
    assert content.isascii()
    assert b"\r" not in content
    assert content.endswith(b".\n")


def test_the_last_tenth_is_held_out(corpus_of: Callable[[bytes], Corpus]) -> None:
    corpus = corpus_of(b"abcdefghijklmnopqrstuvwxyz")
    assert (len(corpus.training), len(corpus.held_out)) == (24, 2)
    assert corpus.training.dtype == corpus.held_out.dtype == np.int64


def test_a_character_of_the_held_out_part_alone_has_a_number(
    corpus_of: Callable[[bytes], Corpus],
) -> None:
    corpus = corpus_of(b"ab" * 9 + b"z\xc3\xa9")
    assert corpus.characters == "abzé"
    assert corpus.vocabulary == 4
    assert corpus.held_out.tolist() == [2, 3]


def test_a_mark_of_utf_8_and_ends_of_lines_of_windows_are_no_characters(
    corpus_of: Callable[[bytes], Corpus],
) -> None:
    content = b"\xef\xbb\xbfone\r\ntwo\r\n"
    corpus = corpus_of(content)
    assert text_of(corpus) == "one\ntwo\n"
    assert corpus.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds only one distinct character"),
        (b"a", "holds only one distinct character"),
        (b"aaaa", "holds only one distinct character"),
        (b"\xef\xbb\xbf", "holds only one distinct character"),
        (b"abc\xff", r"is not UTF-8 text \(byte 3\)"),
        ("ab".encode("utf-16"), r"is not UTF-8 text \(byte 0\)"),
        (b"\xed\xa0\x80", r"is not UTF-8 text \(byte 0\)"),  # half of a surrogate pair
        (b"\x7fELF\x00\x01", "is not text: it holds a NUL byte"),
        (
            "".join(map(chr, range(0x4E00, 0x4E00 + 4097))).encode(),
            "4097 different characters; at most 4096 are allowed",
        ),
    ],
)
def test_what_is_no_text_to_learn_is_refused_on_one_line(
    corpus_of: Callable[[bytes], Corpus], content: bytes, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"\A--text '.*text\.txt': {reason}\Z"):
        corpus_of(content)


def test_a_text_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # no disk holds that: a sparse file
    with pytest.raises(InvalidInput, match="is larger than 4 MiB"):
        Corpus.of_file(str(path))


def test_the_largest_text_that_is_taken_is_of_four_mebibytes(
    corpus_of: Callable[[bytes], Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "LARGEST_TEXT", 8)
    assert corpus_of(b"abcdefgh").vocabulary == 8
    with pytest.raises(InvalidInput, match="is larger than"):
        corpus_of(b"abcdefghi")


@pytest.mark.parametrize("name", ["missing.txt", ".", "nul\0"])
def test_a_text_that_cannot_be_read_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match=r"\A--text '[^\n]*': [^\n]+\Z"):
        Corpus.of_file(name)


def test_a_text_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the name is empty"):
        Corpus.of_file("")
