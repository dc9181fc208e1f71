"""GGUF files on the command line: wherever a config is taken."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as library
from tests.gguf_files import GOLDEN, converted, gguf_bytes, llama, parsed
from tests.processes import PATIENCE


@pytest.fixture
def gguf(tmp_path):
    def write(content, name="model.gguf"):
        data = converted(content)[1] if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


def test_explain_says_each_value_with_its_key(gguf, printed):
    out = printed("explain", gguf("llama-3.1-8b"), err="")
    assert out.startswith("GGUF architecture llama: rope-llama3\n")
    words = " ".join(out.split())
    assert "llama.rope.freq_base" in words
    assert "the converter permutes the rows of q and k" in words
    assert "context: 131072 positions (llama.context_length)" in words


@pytest.mark.long
def test_a_file_is_told_by_its_first_bytes_and_may_come_through_a_pipe(gguf, posenc):
    path = gguf("gemma-3-4b", "config.json")
    run = posenc("explain", "-", "--json", input=Path(path).read_bytes(), text=False)
    assert (run.returncode, run.stderr) == (0, b"")
    layers = json.loads(run.stdout)["layers"]
    assert [group["layer_type"] for group in layers] == ["sliding_attention", "full_attention"]
    window = {"value": 1024, "source": "gemma3.attention.sliding_window"}
    assert layers[0]["derived"]["window"] == window


def test_strict_is_status_1_where_a_key_is_absent(call, gguf):
    path = gguf(gguf_bytes(llama(rope__freq_base=None)))
    assert call("explain", path)[0] == 0
    status, _, err = call("explain", path, "--strict")
    assert (status, "llama.rope.freq_base" in err) == (1, True)


def test_other_commands_and_the_library_take_it_as_a_config(call, gguf):
    gguf("llama-3.1-8b")
    generated = ("generate", "--table", "inv-freq", "--dtype", "float64", "--out")
    assert call(*generated, "own.npy", "--config", "model.gguf")[0] == 0
    assert call(*generated, "model.npy", "-m", "llama-3.1-8b")[0] == 0
    assert np.array_equal(np.load("own.npy"), np.load("model.npy"))
    assert call("spectrum", "--config", "model.gguf")[0] == 0
    assert call("rope-check", "--config", "model.gguf", "--len", "64")[0] == 0
    encoding = library.from_config("model.gguf")
    assert encoding.parameters["base"].source == "llama.rope.freq_base"
    own, model = (library.frequencies(name) for name in ("model.gguf", "llama-3.1-8b"))
    assert np.array_equal(own, model)


def test_another_engine_does_not_read_it(call, gguf, refused):
    path = gguf("llama-3.1-8b")
    assert call("explain", path, "--as", "llama.cpp")[0] == 0
    assert "is a GGUF file, which only llama.cpp reads" in refused("explain", path, "--as", "vllm")


def test_compare_says_by_name_what_a_file_has_lost(call, gguf, tmp_path, printed):
    config, data = converted("llama-3.1-8b")
    stated = tmp_path / "config.json"
    stated.write_text(json.dumps(config), "utf-8")
    good = gguf(data, "good.gguf")
    told = " ".join(printed("compare", str(stated), good, err="").split())
    assert told.startswith("ok: all 12 settings of A and B agree")
    assert "compared: architecture, layers, context" in told
    keys, tensors = parsed(data)
    del keys["llama.rope.freq_base"]
    bad = gguf(gguf_bytes(keys, tensors), "bad.gguf")
    status, out, err = call("compare", str(stated), bad)
    assert status == 1
    assert out.startswith("DIFFERENT: base (1 of 11 settings)\ncause: base is 500000 in A and")
    assert out.splitlines()[2].startswith("next: ")
    assert "500000 (rope_theta)" in out
    assert "llama.rope.freq_base is missing: llama.cpp uses 10000" in err
    document = json.loads(call("compare", good, bad, "--json")[1])
    assert document["kind"] == "models"
    assert document["ok"] is False
    assert document["losses"][0] == {
        "name": "base",
        "layers": None,
        "a": {"value": 500000.0, "source": "llama.rope.freq_base"},
        "b": {"value": 10000.0, "source": "DEFAULT: key absent (llama.rope.freq_base)"},
    }
    assert call("compare", "llama-3.1-8b", good)[0] == 0


def shards(tmp_path, count=3):
    """Three shards as gguf-split writes them, the divisors in the last."""
    tmp_path.mkdir(exist_ok=True)
    split = {"split.count": ("uint16", count)}
    names = [tmp_path / f"m-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    for number, name in enumerate(names):
        keys = {**(llama() if not number else {}), **split, "split.no": ("uint16", number)}
        tensors = {"rope_freqs.weight": ([1.0] * 4 + [8.0] * 4, 0)} if number == count - 1 else {}
        name.write_bytes(gguf_bytes(keys, tensors))
    return names


def said(call, path):
    """What explain says in JSON, but for the next command, which names the file."""
    fields = json.loads(call("explain", path, "--json")[1])
    return json.dumps({**fields, "next": None})


def assert_one_model(call, names):
    """Each shard says the same, the divisors in the last among it."""
    texts = {said(call, str(name)) for name in names}
    assert (len(names), len(texts)) == (3, 1)
    assert "rope_freqs.weight" in texts.pop()


def test_a_shard_stands_for_its_model(call, tmp_path, forms):
    assert_one_model(call, shards(tmp_path / "own"))
    assert_one_model(call, [*forms.glob("m-*.gguf")])  # as gguf writes them


def test_a_missing_shard_is_told(call, tmp_path, refused, printed):
    names = shards(tmp_path)
    names[2].unlink()
    out = printed("explain", str(names[0]))
    assert "shards are not beside the file (3)" in " ".join(out.split())
    status, _, err = call("explain", str(names[0]), "--strict")
    assert (status, "lacking: shards 3" in err) == (1, True)
    names[0].unlink()
    keys = "is shard 2 of 3, and the keys of the model stand in the first"
    assert keys in refused("explain", str(names[1]))


def test_a_file_that_ends_too_soon_is_told_and_fails_where_asked(call, gguf, printed):
    path = gguf(converted("phi-3-vision-128k")[1][:-100])
    ends = "the file ends before 1 of its 3 tensors do: llama.cpp does not load it"
    assert ends in " ".join(printed("explain", path).split())
    for options, reason in (
        (("--strict",), "lacking: 1 of its 3 tensors"),
        (("--fail-on", "lacking"), "the file lacks 1 of its 3 tensors"),
    ):
        status, _, err = call("explain", path, *options)
        assert (status, reason in err) == (1, True)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tensor_is_read_as_a_file_of_numbers(call, gguf, order, refused):
    tensors = {"a.weight": ([1.0, 2.5, 4.0], 0), "b.weight": ([1.5, 3.0], 1)}
    path = gguf(gguf_bytes(llama(), tensors, order=order))
    for name, (numbers, _) in tensors.items():
        np.save("it.npy", np.array(numbers))
        assert call("compare", f"{path}:{name}", "it.npy")[0] == 0
    cut = gguf(gguf_bytes(llama(), tensors, order=order, data=b"\0" * 8), "cut.gguf")
    data = gguf_bytes(llama(), {"q.weight": ([1.0], 0)})
    at = data.index(b"q.weight") + 8 + 4 + 8
    quantized = gguf(data[:at] + bytes([12]) + data[at + 1 :], "q.gguf")
    for tensor, said in (
        (f"{path}:c.weight", "holds no 'c.weight', only 'a.weight', 'b.weight'"),
        (f"{cut}:a.weight", "past the end of the file"),
        (f"{quantized}:q.weight", "is quantized"),
    ):
        assert said in refused("compare", tensor, "it.npy")


@pytest.fixture
def forms(tmp_path):
    """The files that gguf wrote in other forms than usual, by name."""
    statement = json.loads((GOLDEN / "gguf_forms.json").read_text("utf-8"))
    with np.load(GOLDEN / "gguf_forms.npz") as arrays:
        for case in statement["cases"]:
            (tmp_path / case["name"]).write_bytes(arrays[case["array"]].tobytes())
    return tmp_path


@pytest.mark.parametrize("name", ["llama-3.1-8b", "phi-3-vision-128k", "gemma-3-4b"])
def test_a_big_endian_file_says_what_the_other_says(call, forms, gguf, name):
    path = str(forms / f"{name} big-endian.gguf")
    assert said(call, path) == said(call, gguf(name))
    assert call("compare", name, path)[0] == 0


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_a_loop_of_links_and_shards_of_other_counts_end_soon(gguf, posenc, tmp_path):
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    data = Path(gguf("llama-3.1-8b")).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    done = posenc("explain", "pipe.gguf")
    writer.join(PATIENCE)
    assert (done.returncode, "rope-llama3" in done.stdout) == (0, True)
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    names = shards(tmp_path)
    names[0].rename(tmp_path / "m-00002-of-00007.gguf")
    for arguments, status in (
        (("explain", "loop.gguf"), 3),
        (("compare", "llama-2-7b", "loop.gguf"), 3),
        (("explain", names[1].name), 2),
    ):
        done = posenc(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    done = posenc("explain", "m-00002-of-00007.gguf")
    assert (done.returncode, "shards are not beside the file (2–3)" in done.stdout) == (0, True)


def test_what_another_engine_makes_of_layers_that_differ_is_compared_by_name(report):
    status, found = report("compare", "gemma-3-4b", "--as", "llama.cpp")
    assert (status, found["kind"], found["b"]["engine"]) == (0, "models", "llama.cpp")


def test_compare_goes_pair_by_pair_where_positions_or_layers_are_named(call, gguf, printed):
    path = gguf("gemma-3-4b")
    out = printed("compare", path, "gemma-3-4b", "--layer-type", "full_attention")
    assert "all 128 frequencies agree" in out
    rope = ("rope", "--layer-type", "sliding_attention", "--set", "b.dim=256")
    assert call("compare", path, *rope)[0] == 1
