"""GGUF files for tests: those that llama.cpp's converter wrote, and bytes made here."""

import json
import struct
from functools import cache
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden"
CASES = json.loads((GOLDEN / "gguf_llama_cpp.json").read_text("utf-8"))["cases"]
CODES = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}
NUMBERS = {0: "f", 1: "e", 28: "d", 30: "H"}


@cache
def converted(name):
    """The config of a case, and the bytes that the converter made of it."""
    with np.load(GOLDEN / "gguf_llama_cpp.npz") as arrays:
        case = next(case for case in CASES if case["name"] == name)
        return case["config"], arrays[case["array"]].tobytes()


def text(value, *, order="<", version=3):
    """A text with its length."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(order + ("I" if version == 1 else "Q"), len(data)) + data


def value_bytes(kind, value, *, order="<", version=3):
    """A value of the metadata, its type before it."""
    if kind == "string":
        return struct.pack(order + "I", 8) + text(value, order=order, version=version)
    if kind.startswith("array of "):
        item = kind.removeprefix("array of ")
        length = struct.pack(order + ("I" if version == 1 else "Q"), len(value))
        if item == "string":
            items = b"".join(text(each, order=order, version=version) for each in value)
            return struct.pack(order + "II", 9, 8) + length + items
        code, form = CODES[item]
        return (
            struct.pack(order + "II", 9, code)
            + length
            + struct.pack(f"{order}{len(value)}{form}", *value)
        )
    code, form = CODES[kind]
    return struct.pack(f"{order}I{form}", code, value)


def gguf_bytes(metadata, tensors=(), *, version=3, order="<", data=None):
    """A GGUF file of some metadata, {key: (type, value)}, and tensors, {name: (numbers, code)}."""
    how = {"order": order, "version": version}
    wide = order + ("I" if version == 1 else "Q")
    tensors = dict(tensors)
    head = b"GGUF" + struct.pack(order + "I", version)
    head += struct.pack(wide, len(tensors)) + struct.pack(wide, len(metadata))
    for key, (kind, value) in metadata.items():
        head += text(key, **how) + value_bytes(kind, value, **how)
    body = b""
    for name, (numbers, code) in tensors.items():
        body += b"\0" * (-len(body) % 32)
        head += text(name, **how) + struct.pack(order + "I", 1)
        head += struct.pack(wide, len(numbers)) + struct.pack(order + "IQ", code, len(body))
        body += struct.pack(f"{order}{len(numbers)}{NUMBERS[code]}", *numbers)
    return head + b"\0" * (-len(head) % 32) + (body if data is None else data)


def llama(**more):
    """The metadata of a small Llama, with keys replaced, added, or (None) left out."""
    keys = {
        "general.architecture": ("string", "llama"),
        "llama.context_length": ("uint32", 4096),
        "llama.embedding_length": ("uint32", 64),
        "llama.block_count": ("uint32", 2),
        "llama.attention.head_count": ("uint32", 4),
        "llama.rope.freq_base": ("float32", 10000.0),
        "llama.rope.dimension_count": ("uint32", 16),
    }
    keys |= {f"llama.{name.replace('__', '.')}": value for name, value in more.items()}
    return {key: value for key, value in keys.items() if value is not None}


def parsed(data):
    """The metadata and the tensors of a GGUF file as ``gguf_bytes`` takes them, to be changed."""
    import io

    from posenc_cli.files.gguf import read_gguf

    names = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
    header = read_gguf(io.BytesIO(data), name="it", size=len(data), asked=names)
    metadata = {key: (value.type, value.value) for key, value in header.metadata.items()}
    return metadata, {name: (numbers, 0) for name, numbers in header.numbers.items()}
