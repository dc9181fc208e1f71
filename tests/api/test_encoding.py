"""Encodings as arrays: the values that the command writes, in the shapes that callers want."""

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.encoding.engine import THREADS_FROM
from posenc_cli.formulas.declare import Scheme
from tests.memory import peak

CASES = {
    "sinusoidal": ({"dim": 16}, ["--dim", "16"]),
    "rope": ({"dim": 16, "base": 5e5}, ["--dim", "16", "--base", "5e5"]),
    "rope-dynamic": ({"dim": 16, "factor": 2.0}, ["--dim", "16", "--set", "factor=2"]),
    "alibi": ({"heads": 3}, ["--heads", "3"]),
    "t5": ({"heads": 2, "seed": 0}, ["--heads", "2", "--set", "seed=0"]),
    "shaw": ({"dim": 8, "seed": 0}, ["--dim", "8", "--set", "seed=0"]),
    "rope-yarn": ({"dim": 16, "factor": 8.0}, ["--dim", "16", "--set", "factor=8"]),
    "mrope": ({"dim": 16, "sections": (4, 2, 2)}, ["--dim", "16", "--set", "sections=4,2,2"]),
    "xpos": ({"dim": 8}, ["--dim", "8"]),
    "learned": (
        {"dim": 8, "max_len": 64, "seed": 1},
        ["--dim", "8", "--set", "max_len=64", "--set", "seed=1"],
    ),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("scheme", CASES)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_values_are_those_that_the_command_writes(call, tmp_path, scheme, dtype):
    parameters, options = CASES[scheme]
    status, _, err = call(
        "generate", "-s", scheme, "-l", "40", *options, "--dtype", dtype, "-o", "a.npy"
    )
    assert status == 0, err
    expected = np.load(tmp_path / "a.npy")
    for _ in range(2):  # what is kept of the first call is right for the second
        values = posenc.encode(scheme, 40, dtype=dtype, **parameters)
        assert values.dtype == expected.dtype
        assert values.shape == expected.shape
        assert values.tobytes() == expected.tobytes()


def test_a_length_that_a_scheme_follows_is_not_that_of_an_earlier_call():
    def lowest(count):
        return posenc.encode("rope-dynamic", count, dim=8, factor=4.0, table="angles")[5, -1]

    assert lowest(64) != lowest(65536)
    assert lowest(64) == posenc.encode("rope", 6, dim=8, table="angles")[5, -1]


@pytest.mark.parametrize("name", ["rope_default_d64_theta10000", "rope_default_d128_theta500000"])
def test_tables_are_a_peers_but_for_its_roundings(golden, name):
    case, arrays = golden(name)
    dim = int(case["params"].get("dim", 0)) or int(name.split("_d")[2].split("_")[0])
    base = float(name.rpartition("theta")[2])
    cos, sin = posenc.tables(
        "rope", arrays["positions"], full=True, dim=dim, base=base, layout="half"
    )
    near = arrays["positions"] < 1024
    for ours, theirs in ((cos, arrays["cos"]), (sin, arrays["sin"])):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs)[near].max() < 2e-4  # frequencies in float32 at position 1023


def test_rows_stand_where_their_positions_stood():
    ids = np.array([[3, 1, 1], [0, 9, 2]])
    table = posenc.encode("sinusoidal", ids, dim=8)
    assert table.shape == (2, 3, 8)
    assert np.array_equal(table, posenc.encode("sinusoidal", 10, dim=8)[ids])
    cos, sin = posenc.tables("rope", ids, dim=8)
    assert cos.shape == sin.shape == (2, 3, 4)


@pytest.mark.parametrize("rows", [1, 64, 65])
@pytest.mark.parametrize("full", [False, True])
def test_few_rows_and_many_give_the_tables_of_encode_in_arrays_of_their_own(rows, full):
    positions = range(1000, 1000 + rows)
    both = posenc.tables("llama-3.1-8b", positions, full=full)
    for name, table in both._asdict().items():
        alone = posenc.encode("llama-3.1-8b", positions, table=f"{name}-full" if full else name)
        assert table.tobytes() == alone.tobytes()
        assert table.shape == alone.shape
        assert table.flags.c_contiguous
        assert table.flags.owndata


def test_a_result_fills_out_and_is_it():
    out = np.empty((4, 8), np.float16)
    assert posenc.encode("rope", 4, dim=8, out=out) is out
    assert np.array_equal(out, posenc.encode("rope", 4, dim=8, dtype="float16"))
    strided = np.zeros((8, 8))[::2]
    posenc.encode("rope", 4, dim=8, out=strided)
    assert np.array_equal(strided, posenc.encode("rope", 4, dim=8, dtype="float64"))
    with pytest.raises(ValueError, match=r"out has the shape \(4, 8\), the result \(5, 8\)"):
        posenc.encode("rope", 5, dim=8, out=out)
    with pytest.raises(ValueError, match="out: is float16, the result float32"):
        posenc.encode("rope", 4, dim=8, out=out, dtype="float32")


def test_blocks_are_the_rows_of_the_whole():
    rows = list(posenc.blocks("rope", 70_000, dim=16))
    assert len(rows) > 1
    assert np.array_equal(np.concatenate(rows), posenc.encode("rope", 70_000, dim=16))


@pytest.mark.long
def test_blocks_of_any_length_take_the_same_memory():
    def draw(count):
        for _ in posenc.blocks("rope", count, dim=128):
            pass

    # Both are for two threads: those keep more blocks than one. What is cached is made before.
    draw(THREADS_FROM // 128)
    few = max(peak(lambda: draw(THREADS_FROM // 128)) for _ in range(3))
    many = peak(lambda: draw(THREADS_FROM // 32))
    assert many < 1.2 * few + (1 << 19)  # of 128 MiB


def test_weights_are_read_again_at_each_call(tmp_path):
    for value in (1.0, 2.0):
        np.save(tmp_path / "w.npy", np.full((8, 4), value, np.float32))
        table = posenc.encode("learned", 8, dim=4, max_len=8, weights=str(tmp_path / "w.npy"))
        assert (table == value).all()


def test_parameters_are_bound_once_for_all_positions(monkeypatch):
    bound, bind = [], Scheme.bind
    monkeypatch.setattr(Scheme, "bind", lambda *a, **named: bound.append(a) or bind(*a, **named))
    for position in range(3):
        posenc.encode("rope", [position], dim=12)
    assert len(bound) == 1  # bound at each position, a decoding step took 0.16 ms, now 0.09
    assert not np.array_equal(
        posenc.encode("rope", [2], dim=12, base=2.0), posenc.encode("rope", [2], dim=12)
    )


def test_a_warning_comes_with_each_request():
    for std in (1.0, 1.0, 2.0):
        with pytest.warns(UserWarning, match="random weights"):
            posenc.encode("learned", 7, dim=12, max_len=9, std=std)


def test_an_encoding_that_follows_the_length_is_bound_for_each_length():
    how = {"dim": 8, "max_position_embeddings": 64}
    for length in (16, 1024, 64, 1024, 16):
        expected = posenc.encode("rope-dynamic", 3, seq_len=length, **how)
        assert np.array_equal(posenc.encode("rope-dynamic", length, **how)[:3], expected)
    with pytest.raises(ValueError, match="position -1 is negative"):
        posenc.encode("learned", [-1], dim=12, max_len=9)


def test_positions_are_refused_whatever_was_encoded_before():
    posenc.encode("rope-axial", 4, dim=16)
    with pytest.raises(ValueError, match="position -1 is negative"):
        posenc.encode("rope-axial", [-1], dim=16, table="inv-freq")


@pytest.mark.parametrize(
    "positions", [[0, 2**53], [0, 2**52, 2**53], [-3, 2**53 - 1], range(-(2**53), 2**53 + 1, 2**50)]
)
def test_rows_that_span_2_to_the_53_are_those_of_each_position(positions):
    each = [posenc.encode("rope", [position], dim=4) for position in positions]
    assert np.array_equal(posenc.encode("rope", positions, dim=4), np.concatenate(each))
    assert np.array_equal(
        np.concatenate(list(posenc.blocks("rope", positions, dim=4))), np.concatenate(each)
    )


def test_arguments_of_blocks_are_checked_before_the_first_is_asked_for():
    with pytest.raises(ValueError, match="dim 3"):
        posenc.blocks("rope", 4, dim=3)


@pytest.mark.long
def test_a_bias_of_some_queries_and_keys_is_that_part_of_the_whole():
    for scheme, parameters in (
        ("alibi", {"heads": 3}),
        ("t5", {"heads": 2, "seed": 0}),
        ("sandwich", {"heads": 2}),
    ):
        whole = posenc.encode(scheme, 12, **parameters)
        assert np.array_equal(posenc.bias(scheme, 12, **parameters), whole)
        part = posenc.bias(scheme, [11, 3], range(2, 12), **parameters)
        assert np.array_equal(part, whole[:, [11, 3]][:, :, 2:12])
        one = posenc.bias(scheme, [11], 12, head=1, **parameters)
        assert np.array_equal(one, whole[1, 11:])


def test_frequencies_are_those_of_the_formula():
    assert np.allclose(posenc.frequencies("rope", dim=8), 1e4 ** -(np.arange(4) / 4), rtol=1e-15)
    assert posenc.frequencies("sinusoidal", dim=8, dtype="float32").dtype == np.float32
    assert posenc.frequencies("rope", dim=8, like=np.float16(0)).dtype == np.float16


def test_a_config_says_where_each_value_comes_from():
    model = posenc.from_config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})
    assert (model.scheme, model.layer_type) == ("rope", None)
    assert model.parameters["base"].source == "default of llama"
    assert posenc.from_config("gemma-3-4b", layer_type="full_attention").layer_type


def test_what_is_drawn_at_random_is_said_to_be():
    with pytest.warns(UserWarning, match="t5: random weights, seed 0"):
        posenc.encode("t5", 4, heads=2)
    with pytest.warns(UserWarning, match="gpt2: .* randomly initialized"):
        posenc.encode("gpt2", 4)


def test_numbers_of_numpy_are_numbers():
    ours = posenc.encode("rope", np.int64(3), dim=np.int64(8), base=np.float64(1e4))
    assert np.array_equal(ours, posenc.encode("rope", 3, dim=8))
    assert np.array_equal(posenc.alibi_slopes(np.int64(4)), posenc.alibi_slopes(4))
    assert posenc.encode("rope", 3, dim=8, dtype=float).dtype == np.float64


def test_only_rows_of_positions_take_the_shape_of_positions():
    ids = np.arange(8).reshape(2, 4)
    assert posenc.encode("rope", ids, dim=16, table="inv-freq").shape == (8,)
    for scheme, given in (("alibi", {"heads": 4}), ("shaw", {"dim": 8, "seed": 0})):
        with pytest.raises(ValueError, match="one-dimensional"):
            posenc.encode(scheme, ids, **given)


def test_a_result_is_like_a_tensor():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    like = torch.zeros(1, dtype=torch.bfloat16)
    table = posenc.encode("rope", torch.arange(6).reshape(2, 3), dim=8, like=like)
    assert (table.dtype, table.shape) == (torch.bfloat16, (2, 3, 8))
    exact = posenc.encode("rope", 6, dim=8, round_to="bfloat16")
    assert np.array_equal(table.float().numpy().reshape(6, 8), exact)
    assert posenc.encode("rope", 2, dim=8, like=torch.arange(3)).dtype == torch.float32


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("encoding", "how"),
    [
        ("rope", {"dim": 6, "table": "complex"}),
        ("rope", {"dim": 6, "table": "interleaved", "dtype": "float64"}),
        ("rope", {"dim": 6, "table": "angles"}),
        ("rope", {"dim": 6, "round_to": "bfloat16"}),
        ("sinusoidal", {"dim": 7, "odd": "pad", "dtype": "float16"}),
        ("llama-3.1-8b", {}),
        ("xpos", {"dim": 8}),
        ("timestep", {"dim": 5}),
    ],
)
def test_an_array_that_is_given_is_filled_as_blocks_are(encoding, how, threads, monkeypatch):
    monkeypatch.setattr("posenc_cli.choice.threads_for", lambda *_: threads, raising=False)
    monkeypatch.setattr("posenc_cli.encoding.engine.threads_for", lambda *_: threads)
    positions = np.r_[5:3000, 17, 9_000_000:9_001_000]
    expected = np.concatenate(list(posenc.blocks(encoding, positions, **how)))
    assert posenc.encode(encoding, positions, **how).tobytes() == expected.tobytes()
    if expected.dtype.kind != "c":
        out = np.full_like(expected, -7)
        assert posenc.encode(encoding, positions, out=out, **how) is out
        assert out.tobytes() == expected.tobytes()


def test_many_small_requests_load_the_compiled_kernel(monkeypatch):
    from posenc_cli.api import encoding
    from posenc_cli.backends import registry

    if not registry.status("fast").available:
        pytest.skip("there is no compiled library")
    monkeypatch.setattr(encoding, "_asked_for", 0)
    asked, choose = [], registry.choose

    def chosen(*given, **named):
        asked.append(choose(*given, **named))
        return asked[-1]

    monkeypatch.setattr(registry, "choose", chosen)
    rows = [posenc.encode("rope", range(at, at + 1), dim=64) for at in range(100)]
    assert [asked[0].backend.name, asked[-1].backend.name] == ["numpy", "fast"]
    assert np.concatenate(rows).tobytes() == posenc.encode("rope", 100, dim=64).tobytes()


def test_a_head_that_is_not_an_integer_spoils_no_later_request():
    with pytest.raises((TypeError, ValueError)):
        posenc.encode("alibi", 16, head=1.0)
    assert posenc.encode("alibi", 16, head=1).shape == (16, 16)
