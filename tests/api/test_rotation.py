"""Vectors that are turned as peers turn them, of NumPy and of torch."""

import numpy as np
import pytest

import posenc_cli as posenc

PEERS = {
    "rope_apply_llama_half": ({"dim": 64, "layout": "half"}, -2),
    "rope_apply_gptj_interleaved": ({"dim": 64, "layout": "interleaved"}, -3),
    "rope_apply_gpt_neox_partial": ({"dim": 96, "partial": 0.25, "layout": "half"}, -2),
}


@pytest.mark.parametrize("name", PEERS)
def test_vectors_come_out_as_a_peer_turns_them(golden, name):
    _, arrays = golden(name)
    parameters, axis = PEERS[name]
    positions = arrays["positions"]
    q, k = posenc.rotate(
        arrays["q"], arrays["k"], positions, "rope", sequence_axis=axis, **parameters
    )
    # The peer's frequencies are in float32: an angle may be off by p · 2^-24 and its products.
    allowed = (positions * 2.0**-22 + 2e-6).reshape([-1, *[1] * (-axis - 1)])
    for ours, theirs in ((q, arrays["q_out"]), (k, arrays["k_out"])):
        assert (np.abs(ours - theirs) <= 4 * allowed).all()


def test_keys_of_xpos_fall_where_queries_grow(golden):
    _, arrays = golden("xpos_torchscale")
    x = arrays["x_n16_o0"]
    up, down = posenc.rotate(x, x, 16, "xpos", dim=32, scale_base=512.0)
    assert np.abs(up - arrays["up_n16_o0"]).max() < 1e-5
    assert np.abs(down - arrays["down_n16_o0"]).max() < 1e-5


def test_a_batch_has_positions_of_its_own():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 3, 4, 8))  # (batch, heads, n, columns)
    ids = np.array([[0, 1, 2, 3], [7, 8, 9, 30]])
    turned = posenc.rotate(q, None, ids, "rope", dim=8)
    for sequence, row in zip(range(2), ids, strict=True):
        assert np.array_equal(
            turned[sequence], posenc.rotate(q[sequence], None, row, "rope", dim=8)
        )
    after = posenc.rotate(q.swapaxes(1, 2), None, ids, "rope", sequence_axis=-3, dim=8)
    assert np.array_equal(after.swapaxes(1, 2), turned)


def test_fewer_key_heads_and_columns_that_pass_through():
    q, k = np.ones((4, 5, 12), np.float32), np.ones((2, 5, 12), np.float32)
    turned_q, turned_k = posenc.rotate(q, k, 5, "rope", dim=8)
    assert np.array_equal(turned_q[:2], turned_k)
    assert (turned_q[..., 8:] == 1).all()
    assert (q == 1).all()  # what was given stays


@pytest.mark.parametrize("ids", [np.zeros((3, 4), int), np.zeros((2, 3, 4), int)])
def test_positions_that_do_not_go_with_the_vectors_are_refused(ids):
    with pytest.raises(ValueError, match="q has"):
        posenc.rotate(np.ones((2, 4, 8)), None, ids, "rope", dim=8)


def test_tensors_keep_their_format_and_pass_gradients():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    turned = posenc.rotate(q, None, 3, "rope", dim=8)
    assert np.array_equal(
        turned.detach().numpy(), posenc.rotate(q.detach().numpy(), None, 3, "rope", dim=8)
    )
    turned.square().sum().backward()
    assert torch.allclose(q.grad, 2 * q)  # a rotation keeps lengths
    half = torch.ones(3, 8, dtype=torch.bfloat16)
    assert posenc.rotate(half, half, 3, "rope", dim=8)[1].dtype == torch.bfloat16
