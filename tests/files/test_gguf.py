"""The reader of GGUF headers: what stands in them, and that no file can make it run on."""

import io
import struct
import tracemalloc
from random import Random
from time import process_time

import pytest

from posenc_cli.configs.config import resolve
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.files.gguf import read_gguf
from tests.gguf_files import CASES, converted, gguf_bytes, llama, text, value_bytes
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import ran_code

FREQS = "rope_freqs.weight"
LENGTH = struct.Struct("<Q")


def header_of(data, *, stream=False, asked=(FREQS,)):
    return read_gguf(
        io.BytesIO(data), name="'m.gguf'", size=None if stream else len(data), asked=asked
    )


def refusal(data, *, stream=False):
    with pytest.raises(InvalidInput) as refused:
        header_of(data, stream=stream)
    assert "\n" not in refused.value.message
    return refused.value.message


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("stream", [False, True])
def test_versions_1_to_3_of_both_byte_orders_are_read_from_files_and_streams(
    version, order, stream
):
    metadata = {
        **llama(),
        "llama.list": ("array of int32", [1, -2, 3]),
        "tokenizer.ggml.tokens": ("array of string", ["a", "", "ccc"] * 9000),
        "tokenizer.ggml.scores": ("array of float32", [0.5] * 27000),
        "llama.half": ("float64", 0.5),
    }
    data = gguf_bytes(metadata, {FREQS: ([1.0, 2.5], 0)}, version=version, order=order)
    header = header_of(data, stream=stream)
    assert (header.version, header.big_endian) == (version, order == ">")
    assert header.numbers == {FREQS: (1.0, 2.5)}
    assert {key: (value.type, value.value) for key, value in header.metadata.items()} == {
        **{key: value for key, value in metadata.items() if "list" not in key},
        "llama.list": ("array of int32", (1, -2, 3)),
        "tokenizer.ggml.tokens": ("array of string", None),
        "tokenizer.ggml.scores": ("array of float32", None),
    }
    assert header.missing == 0


@pytest.mark.parametrize(("code", "numbers"), [(1, [1.5, 2.0]), (28, [0.1]), (30, [0x3FC0])])
def test_tensors_of_other_formats_are_read(code, numbers):
    data = gguf_bytes(llama(), {FREQS: (numbers, code)})
    assert header_of(data).numbers[FREQS] == ((1.5,) if code == 30 else tuple(numbers))


def test_every_file_of_the_converter_ends_where_its_header_says():
    for case in CASES:
        _, data = converted(case["name"])
        header = header_of(data)
        assert header.metadata["general.architecture"].value == case["architecture"]
        assert (header.version, header.missing) == (3, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_cut_anywhere_in_its_header_is_refused(stream):
    data = gguf_bytes(llama(), {FREQS: ([1.0] * 8, 0)})
    for end in range(4, len(data)):
        message = refusal(data[:end], stream=stream)
        assert any(word in message for word in ("ends within", "left", "past the end"))


def huge(count):
    return b"GGUF" + struct.pack("<IQQ", 3, 0, count)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (huge(10**9), "claims 1000000000 keys"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "tensors"),
        (huge(1) + LENGTH.pack(1 << 60), "a key of 1152921504606846976 bytes"),
        (huge(1) + text("a") + struct.pack("<IQ", 8, 1 << 60), "a text of 11529215046"),
        (huge(1) + text("a") + struct.pack("<IIQ", 9, 4, 1 << 61), "an array of 23058430"),
        (huge(1) + text("a") + struct.pack("<IIQ", 9, 8, 1 << 61), "an array of 23058430"),
        (huge(1) + text("a") + struct.pack("<IIQ", 9, 9, 1), "array of arrays"),
        (huge(1) + text("a") + struct.pack("<II", 77, 0), "type 77 that GGUF lacks"),
        (huge(2) + 2 * (text("a") + struct.pack("<IB", 0, 1)), "duplicate key 'a'"),
        (huge(1) + text(b"\xff") + struct.pack("<IB", 0, 1), "not UTF-8"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(64), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 99), "99 axes"),
    ],
)
def test_hostile_counts_and_lengths_are_refused_at_once(data, message, stream):
    tracemalloc.start()
    try:
        told = refusal(data + bytes(64), stream=stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message in told or (stream and "ends within" in told)
    assert peak < 4 << 20


class Endless(io.RawIOBase):
    """A stream that goes on for ever, of the bytes given and then of one kind of block."""

    def __init__(self, start, block):
        self.data, self.block, self.given = start, block, 0

    def read(self, count=-1):
        while len(self.data) < count:
            self.data += self.block * 1024
        piece, self.data = self.data[:count], self.data[count:]
        self.given += len(piece)
        return piece


@pytest.mark.parametrize(
    ("start", "block"),
    [
        (huge(1) + text("a") + struct.pack("<IIQ", 9, 8, 4_000_000), LENGTH.pack(1 << 20)),
        (huge(60_000), text("k" * 200) + struct.pack("<IB", 0, 1)),
    ],
)
def test_an_endless_stream_is_not_read_to_its_end(start, block):
    stream = Endless(start, block)
    with pytest.raises(InvalidInput):
        read_gguf(stream, name="'-'", size=None)
    assert stream.given < 80 << 20


def with_tensors(*tensors):
    """A file of tensors of given names, counts, codes and offsets."""
    keys = llama()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, (kind, value) in keys.items():
        head += text(key) + value_bytes(kind, value)
    for name, count, code, offset in tensors:
        head += text(name) + struct.pack("<IQIQ", 1, count, code, offset)
    return head + bytes(128)


def test_quantized_overlapping_and_far_tensors_are_refused():
    def with_tensor(code, offset, count=4):
        return with_tensors((FREQS, count, code, offset))

    assert "quantized" in refusal(with_tensor(12, 0))
    assert "past the end" in refusal(with_tensor(0, 1 << 62))
    assert "9999 numbers" in refusal(with_tensor(0, 0, 9999))
    assert "in a stream" in refusal(with_tensor(0, 1 << 40), stream=True)
    assert header_of(with_tensor(0, 1 << 40), asked=()).missing == 1
    for code, count, size in ((0, 8, 32), (12, 256, 144), (8, 64, 68), (99, 7, 1)):
        whole = with_tensor(code, 0, count)
        start = -(-(len(whole) - 128) // 32) * 32
        whole += bytes(128)
        assert header_of(whole[: start + size], asked=()).missing == 0
        assert header_of(whole[: start + size - 1], asked=()).missing == 1


@pytest.mark.parametrize("stream", [False, True])
def test_tensors_that_overlap_or_share_a_name_are_refused(stream):
    other = "rope_factors_long.weight"
    data = with_tensors((FREQS, 4, 0, 0), (other, 4, 0, 8))
    with pytest.raises(InvalidInput, match="overlaps another"):
        header_of(data, stream=stream, asked=(FREQS, other))
    twice = with_tensors((FREQS, 4, 0, 0), (FREQS, 4, 0, 32))
    assert "occurs twice" in refusal(twice, stream=stream)


def test_an_alignment_that_is_no_power_of_2_is_refused():
    data = gguf_bytes({**llama(), "general.alignment": ("uint32", 48)})
    assert "general.alignment 48" in refusal(data)


@pytest.mark.long
@pytest.mark.skipif(not HAS_HIGH_WATER, reason="the kernel does not say what a process had at most")
def test_a_file_of_40_gb_takes_no_more_memory_than_its_header(tmp_path):
    keys = {
        **llama(),
        "tokenizer.ggml.tokens": ("array of string", [f"token{i}" for i in range(262_144)]),
    }
    data = bytearray(gguf_bytes(keys, {FREQS: ([1.0] * 8, 0)}))
    at = data.rindex(FREQS.encode()) + len(FREQS) + 4 + 8 + 4
    data[at : at + 8] = LENGTH.pack(40 << 30)
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.write(data[:-32])
        file.truncate(len(data) - 32 + (40 << 30))
        file.seek(0, io.SEEK_END)
        file.write(data[-32:])
    code = HIGH_WATER + (
        "from posenc_cli.configs.config import read_config\n"
        f"assert read_config({str(path)!r}).numbers\n"
        "print(high_water())\n"
    )
    assert int(ran_code(code).stdout) < 50 << 20


def mutated(data, random):
    """A header with some bytes replaced, inserted, removed or cut off."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(changed)) if changed else 0
        kind = random.randrange(5)
        if kind == 0:
            changed[at : at + 1] = bytes([random.randrange(256)])
        elif kind == 1:
            width = random.choice((4, 8))
            value = random.choice((0, 1, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
            changed[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        elif kind == 2:
            changed[at:at] = changed[: random.randrange(64)]
        elif kind == 3:
            del changed[at : at + random.randrange(1, 16)]
        else:
            del changed[max(at, 8) :]
    return bytes(changed)


@pytest.mark.slow
def test_20000_mutated_headers_are_read_or_refused_in_one_line_and_soon():
    random = Random(0)
    files = [converted(name)[1] for name in ("llama-3.1-8b", "phi-3-vision-128k", "gemma-3-4b")]
    files += [gguf_bytes(llama(), version=version, order=">") for version in (1, 2, 3)]
    messages = []
    before = process_time()
    for number in range(20_000):
        data = mutated(files[number % len(files)], random)
        try:
            resolve(header_of(data, stream=bool(number % 2)))
        except PosencError as error:
            messages.append(error.message)
    assert 0 < len(messages) < 20_000
    assert [text for text in messages if "\n" in text or len(text) > 400] == []
    assert process_time() - before < 60
