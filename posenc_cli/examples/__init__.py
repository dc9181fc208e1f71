"""Code to try posenc on, and the programs that read test vectors in other languages."""

from __future__ import annotations

from pathlib import Path

READERS = {
    "c": "reader.c",
    "rust": "reader.rs",
    "swift": "reader.swift",
    "js": "reader.js",
    "go": "reader.go",
}
"""The file of each language's reader."""


def reader_text(language: str) -> bytes:
    """Return the reader for a language."""
    folder = Path(__file__).with_name("readers")
    return (folder / READERS[language]).read_bytes()
