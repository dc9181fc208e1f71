"""The model, held against one written out here for a single seed and sequence."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from posenc_cli.experiments.request import CLIP, LOG_N, WINDOW, EncodingRequest, ModelSize  # noqa: E402  # noqa: E402
from posenc_cli.experiments.tables import parts_of  # noqa: E402
from posenc_cli.experiments.transformer import Transformer  # noqa: E402
from posenc_cli.formulas.context_extension.stretches import NONE  # noqa: E402

SIZE = ModelSize(2, 2, 4)
VOCABULARY, LENGTH, TRAINED = 5, 11, 6
CPU = torch.device("cpu")


def transformer(name: str, longest: int = LENGTH) -> Transformer:
    request = EncodingRequest(name, tuple((part, {}) for part in name.split("+")))
    return Transformer(SIZE, VOCABULARY, parts_of(request, SIZE, longest))


def logits(name: str, tokens, stretch: str = NONE, *, seeds=(3, 4), longest: int = LENGTH):
    model = transformer(name, longest)
    parameters = model.first_parameters(seeds)
    return model.at(tokens.shape[-1], stretch, TRAINED, CPU).logits(parameters, tokens)


def some_tokens(length: int = LENGTH, sequences: int = 2):
    generator = np.random.default_rng(1)
    one = generator.integers(0, VOCABULARY, (1, sequences, length))
    return torch.from_numpy(one).expand(2, -1, -1)


def products(query, key):
    return query @ key.transpose(0, 2, 1)


def written_out(
    parameters, tokens, *, bias=None, met=products, added=0.0, hidden=None, factors=1.0
):
    """The logits of one sequence (n,), in float64 NumPy. Bias: (heads, n, n)."""

    def normal(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    weights = {name: value.double().numpy() for name, value in parameters.items()}
    count = len(tokens)
    hidden = np.triu(np.ones((count, count), bool), 1) if hidden is None else hidden
    x = weights["tokens"][tokens] + added
    for layer in range(SIZE.layers):
        mixed = normal(x) @ weights[f"{layer}.queries-keys-values"]
        query, key, value = mixed.reshape(count, 3, SIZE.heads, 4).transpose(1, 2, 0, 3)
        scores = met(query, key) / 2
        scores = (scores + (0 if bias is None else bias)) * factors
        scores = np.where(hidden, -np.inf, scores)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        heads = (shares @ value).transpose(1, 0, 2).reshape(count, -1)
        x = x + heads @ weights[f"{layer}.heads"]
        inner = np.maximum(normal(x) @ weights[f"{layer}.inner"], 0)
        x = x + inner @ weights[f"{layer}.outer"]
    return normal(x) @ weights["out"]


def held(name: str, stretch: str = NONE, length: int = LENGTH, seeds=(3, 4), **places) -> None:
    tokens = some_tokens(length)
    computed = logits(name, tokens, stretch, longest=length)
    for place, seed in enumerate(seeds):
        first = transformer(name, length).first_parameters([seed])
        parameters = {key: value[0] for key, value in first.items()}
        expected = written_out(parameters, tokens[0, 1].numpy(), **places)
        np.testing.assert_allclose(computed[place, 1].numpy(), expected, atol=2e-4)


def learned_table(name: str):
    """The numbers that an encoding learns, as seed 3 has them first."""
    first = transformer(name).first_parameters([3])
    (own,) = (key for key in first if key.startswith("encoding."))
    return first[own][0].double().numpy()


def test_absolute_rows_are_added_to_the_tokens():
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    held("sinusoidal", added=np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(LENGTH, 8))


def turned(x):
    angles = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(2) / 2)
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def turned_products(query, key):
    return products(turned(query), turned(key))


def falling(length: int = LENGTH):
    distances = np.arange(length)[:, None] - np.arange(length)[None, :]
    return -np.array([2.0**-4, 2.0**-8])[:, None, None] * distances


def test_rope_turns_queries_and_keys_a_bias_is_added_to_scores_and_a_hybrid_has_both():
    held("nope")
    held("rope", met=turned_products)
    held("alibi", bias=falling())
    held("rope+alibi", bias=falling(), met=turned_products)


@pytest.mark.long
def test_queries_in_blocks_see_what_they_see_at_once():
    held("alibi", length=300, bias=falling(300))


def test_a_window_hides_keys_as_far_back_as_training_and_farther():
    distances = np.arange(LENGTH)[:, None] - np.arange(LENGTH)[None, :]
    held("nope", WINDOW, hidden=(distances < 0) | (distances >= TRAINED))


@pytest.mark.long
def test_log_n_multiplies_the_scores_of_late_queries():
    keys = np.arange(1, LENGTH + 1)[:, None]
    factors = np.maximum(1, np.log(keys) / np.log(TRAINED))
    held("nope", LOG_N, factors=factors)
    held("rope+alibi", LOG_N, factors=factors, met=turned_products, bias=falling())


def test_clipping_meets_far_keys_as_if_they_were_the_farthest_trained():
    distances = np.arange(LENGTH)[:, None] - np.arange(LENGTH)[None, :]
    held(
        "alibi",
        CLIP,
        bias=falling()[:, :1, :1]
        + -np.array([2.0**-4, 2.0**-8])[:, None, None] * np.minimum(distances, TRAINED - 1),
    )

    def clipped(query, key):
        angles = (TRAINED - 1) * 10000.0 ** (-np.arange(2) / 2)
        pairs = (query[..., 0::2] + 1j * query[..., 1::2]) * np.exp(1j * angles)
        far = np.stack([pairs.real, pairs.imag], axis=-1).reshape(query.shape)
        return np.where(distances >= TRAINED, products(far, key), turned_products(query, key))

    held("rope", CLIP, met=clipped)


def test_queries_meet_shaws_rows_by_the_key_less_the_query():
    rows = learned_table("shaw")  # (2 · farthest + 1, columns), from the farthest before on
    farthest = len(rows) // 2
    offsets = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
    met = rows[np.clip(offsets, -farthest, farthest) + farthest]  # (n, n, columns)

    def relative(query, key):
        return products(query, key) + np.einsum("hqc,qkc->hqk", query, met)

    assert np.ptp(rows) > 0
    held("shaw", seeds=(3,), met=relative)


def test_fire_scores_by_the_network_of_its_paper():
    table = learned_table("fire")  # units, then the heads' shifts
    weights, shifts, out = table[:-1, 0], table[:-1, 1], table[:, 2:]
    places = np.arange(LENGTH)
    distances = np.maximum(places[:, None] - places[None, :], 0)
    shares = np.log(1 + 0.1 * distances) / (np.log(1 + 0.1 * 512) + 1e-6)
    hidden = np.maximum(shares[..., None] * weights + shifts, 0)  # (n, n, units)
    held("fire", seeds=(3,), bias=(hidden @ out[:-1] + out[-1]).transpose(2, 0, 1))


@pytest.mark.long
def test_a_later_token_changes_nothing_before_it():
    for name in ("rope", "t5", "shaw", "xpos", "kerple-log", "learned"):
        tokens = some_tokens().clone()
        before = logits(name, tokens)
        tokens[..., -1] = (tokens[..., -1] + 1) % VOCABULARY
        after = logits(name, tokens)
        assert torch.equal(before[..., :-1, :], after[..., :-1, :]), name
        assert not torch.equal(before[..., -1, :], after[..., -1, :]), name


def test_a_seed_has_the_same_first_parameters_alone_and_beside_others():
    model = transformer("t5")
    both, alone = model.first_parameters([3, 4]), model.first_parameters([4])
    for name, value in alone.items():
        assert torch.equal(both[name][1], value[0])
    shared = transformer("nope").first_parameters([4])
    assert all(torch.equal(shared[name], alone[name]) for name in shared)


def test_learned_numbers_of_every_kind_have_gradients():
    for name in ("learned", "t5", "shaw", "fire", "kerple-log", "kerple-power", "t5-clipped"):
        model = transformer(name)
        parameters = {
            key: value.requires_grad_() for key, value in model.first_parameters([3, 4]).items()
        }
        out = model.at(LENGTH, NONE, LENGTH, CPU).logits(parameters, some_tokens())
        out.square().sum().backward()
        (own,) = (key for key in parameters if key.startswith("encoding."))
        gradient = parameters[own].grad
        assert gradient is not None
        assert torch.isfinite(gradient).all(), name
        assert gradient.abs().sum() > 0, name
