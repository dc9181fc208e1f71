"""A job from end to end: what it gives, and that it gives it again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.optim.adamw import adamw  # noqa: E402

from posenc_cli.errors import InvalidInput  # noqa: E402
from posenc_cli.experiments import run as run_module  # noqa: E402
from posenc_cli.experiments.corpus import Corpus, ngram_losses  # noqa: E402
from posenc_cli.experiments.request import JobResult, LengthLosses  # noqa: E402
from posenc_cli.experiments.run import LearningRule, run_job  # noqa: E402
from posenc_cli.experiments.tasks import Copy, TokenBatch, task_of  # noqa: E402
from posenc_cli.experiments.transformer import LengthModel  # noqa: E402
from tests.experiments.small import request  # noqa: E402


@pytest.mark.long
def test_a_job_has_a_run_for_each_seed_and_stretch_that_applies():
    (job,) = request("rope", stretches=("none", "yarn", "window")).jobs()
    result = run_job(job)
    assert [(run.stretch, run.seed) for run in result.runs] == [
        (stretch, seed) for stretch in ("none", "yarn", "window") for seed in (0, 1)
    ]
    assert [each.length for each in result.runs[0].lengths] == [8, 16]
    assert not result.runs[0].learnt
    (alibi,) = request("alibi", stretches=("none", "yarn")).jobs()
    assert {run.stretch for run in run_job(alibi).runs} == {"none"}


@pytest.mark.long
def test_the_same_job_gives_the_same_bits_again_and_as_json():
    (job,) = request("t5").jobs()
    first, second = run_job(job), run_job(job)
    assert first == second
    assert JobResult.from_fields(first.fields()) == first


def test_models_are_fed_alike_whatever_their_encoding(monkeypatch):
    drawn: list[list[np.ndarray]] = []
    own = Copy.training

    def recorded(task, *given):
        batch = own(task, *given)
        drawn[-1].append(batch.inputs)
        return batch

    monkeypatch.setattr(Copy, "training", recorded)
    for job in request("nope", "rope").jobs():
        drawn.append([])
        run_job(job)
    nope, rope = drawn
    assert len(nope) == 12  # six steps of two seeds
    assert all(np.array_equal(one, other) for one, other in zip(nope, rope, strict=True))
    assert len({inputs.tobytes() for inputs in nope}) == 12


@pytest.mark.long
def test_the_learning_rate_grows_and_falls_and_gradients_are_limited(monkeypatch):
    rates, norms = [], []

    def recorded(values, gradients, *moments, lr, **settings):
        rates.append(lr)
        squares = sum(gradient.square().sum(dim=(1, 2)) for gradient in gradients)
        norms.append(squares.sqrt().max().item())
        adamw(values, gradients, *moments, lr=lr, **settings)

    monkeypatch.setattr(run_module, "adamw", recorded)
    monkeypatch.setattr(run_module, "LARGEST_NORM", 0.01)
    (job,) = request("nope", steps=100).jobs()
    run_job(job)
    largest = job.request.learning_rate
    cosine = 0.55 + 0.45 * np.cos(np.pi * np.arange(100) / 100)  # from 1 to a tenth
    expected = largest * cosine * np.minimum(1, np.arange(1, 101) / 50)
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    assert max(norms) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.long
def test_parameters_and_moments_are_those_of_torchs_own_optimizer(monkeypatch):
    own, told = {}, []

    def beside(values, gradients, first, second, _, steps, **settings):
        if not own:
            own["values"] = [value.clone().requires_grad_() for value in values]
            betas, decay = (settings["beta1"], settings["beta2"]), settings["weight_decay"]
            kept = {"betas": betas, "weight_decay": decay, "eps": settings["eps"], "fused": True}
            own["optimizer"] = torch.optim.AdamW(own["values"], **kept)
        for value, gradient in zip(own["values"], gradients, strict=True):
            value.grad = gradient.clone()
        own["optimizer"].param_groups[0]["lr"] = settings["lr"]
        own["optimizer"].step()
        adamw(values, gradients, first, second, _, steps, **settings)
        states = [own["optimizer"].state[value] for value in own["values"]]
        told.extend(map(torch.equal, values, own["values"]))
        told.extend(map(torch.equal, first, (state["exp_avg"] for state in states)))
        told.extend(map(torch.equal, second, (state["exp_avg_sq"] for state in states)))

    monkeypatch.setattr(run_module, "adamw", beside)
    (job,) = request("rope", steps=12).jobs()
    run_job(job)
    assert told
    assert all(told)


def test_each_step_draws_positions_of_its_own_and_tests_lie_on_drawn_ones(monkeypatch):
    taken: list[list[int]] = []
    own = LengthModel.set_positions

    def recorded(model, places):
        taken.append(places.tolist())
        own(model, places)

    monkeypatch.setattr(LengthModel, "set_positions", recorded)
    (job,) = request("rope", positions=64).jobs()
    run_job(job)
    drawn = [places for places in taken if places != [*range(64)]]
    assert [len(places) for places in drawn] == [17] * 6 + [17, 33]  # copied 8, tested at 16 too
    assert len({tuple(places) for places in drawn}) == 8
    for places in drawn:
        assert places == sorted({*places})
        assert max(places) < 64
        assert places != [*range(len(places))]


def test_induction_is_what_the_second_time_is_told_better_by(monkeypatch):
    class Told:
        def __init__(self, *_given):
            pass

        def by_point(self, _batch):
            return np.array([[3.0, 1.0], [2.0, 2.5]])

    monkeypatch.setattr(run_module, "BatchLosses", Told)
    assert run_module.induction_scores(None, {}, None).tolist() == [2.0, -0.5]


def test_of_answers_sequences_are_right_as_a_whole_and_symbols_one_by_one():
    told = object.__new__(run_module.BatchLosses)
    told.right = np.array([[[True, False, True], [True, True, False]]])
    scored = np.array([[True, False, True], [False, True, True]])
    batch = TokenBatch(None, None, scored, None, 3)
    assert told.right_sequences(batch).tolist() == [0.5]
    assert told.right_symbols(batch).tolist() == [0.75]


@pytest.mark.long
def test_a_model_is_judged_where_it_does_better_than_counts_or_answers():
    text = task_of("text")
    rule = LearningRule.of(text, 50)
    assert rule.loss == ngram_losses(text.corpus, longest=2, last=32 * 50)[2]
    assert rule.loss < ngram_losses(text.corpus, longest=1, last=32 * 50)[1]

    def verdict(rule, **told):
        return rule.verdict(LengthLosses(100, 9.0, told.get("last", 9.0), (), told.get("share")))

    assert verdict(rule, last=rule.loss)[0]
    ok, reason = verdict(rule, last=rule.loss + 0.001)
    assert not ok
    assert reason.endswith(f"needs at most {rule.loss:.3f}, the trigram baseline")
    answers = LearningRule.of(task_of("copy"), 50)
    assert verdict(answers, share=0.9)[0]
    assert not verdict(answers, share=0.89)[0]


def use_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let models learn another text than posenc's own."""
    characters = "".join(sorted({*text}))
    tokens = np.array([characters.index(letter) for letter in text])
    training, held_out = np.split(tokens, [len(text) * 9 // 10])
    corpus = Corpus("a text", characters, training, held_out)
    monkeypatch.setattr(Corpus, "own", lambda: corpus)


@pytest.mark.long
def test_training_learns(monkeypatch):
    use_text(monkeypatch, "abcdefgh" * 500)
    (job,) = request("rope", tasks=("text",), steps=100, batch=8, seeds=1).jobs()
    losses = [row[1] for row in run_job(job).training]
    assert losses[-1] < 0.5 * losses[0]


def test_text_is_tested_on_the_same_last_characters_at_each_length(monkeypatch):
    use_text(monkeypatch, "the cat sat on the mat, and " * 200)
    (job,) = request("alibi", tasks=("text",), trained=20, steps=4, tests=("2x", "3x")).jobs()
    (first, *_) = run_job(job).runs
    assert [len(each.by_position) for each in first.lengths] == [20, 40, 60]
    for each in first.lengths:
        assert each.last == pytest.approx(np.mean(each.by_position[-10:]), abs=1e-5)
        assert each.accuracy is None
    assert first.induction is not None


@pytest.mark.long
def test_positions_drawn_at_random_reach_past_the_trained_length():
    (job,) = request("sinusoidal", tasks=("text",), trained=12, positions=64).jobs()
    (plain,) = request("sinusoidal", tasks=("text",), trained=12).jobs()
    assert run_job(job).runs[0].lengths != run_job(plain).runs[0].lengths
    (short,) = request("sinusoidal", tasks=("text",), trained=12, positions=20).jobs()
    with pytest.raises(InvalidInput, match="--randomize 20: must be at least 24"):
        run_job(short)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tests": ("5",)}, "--test 5 is shorter than --train 8"),
        ({"last": 9}, "--last 9 is more than --train 8"),
        ({"tests": ("100000",)}, "--test 100000: 200001 columns of a sequence; at most 8192"),
        ({"tasks": ("nothing",)}, "unknown task 'nothing'"),
    ],
)
def test_a_request_for_what_is_not_there_is_refused_before_training(changes, message):
    (job,) = request("rope", **changes).jobs()
    with pytest.raises(InvalidInput, match=message):
        run_job(job)
