"""Programs that compare a function with test vectors, one per language, for users to compile."""

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
    folder = Path(__file__).parents[1] / "examples" / "readers"
    return (folder / READERS[language]).read_bytes()
