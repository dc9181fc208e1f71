"""A job from end to end: what it gives, and that it gives it again."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from posenc_cli.errors import InvalidInput  # noqa: E402
from posenc_cli.experiments import training  # noqa: E402
from posenc_cli.experiments.results import JobResult  # noqa: E402
from posenc_cli.experiments.run import run_job  # noqa: E402
from tests.experiments.small import request  # noqa: E402


def test_a_job_has_a_run_for_each_seed_and_stretch_that_applies() -> None:
    (job,) = request("rope", stretches=("none", "yarn", "window")).jobs()
    result = run_job(job)
    assert [(run.stretch, run.seed) for run in result.runs] == [
        (stretch, seed) for stretch in ("none", "yarn", "window") for seed in (0, 1)
    ]
    assert [each.length for each in result.runs[0].lengths] == [8, 16]
    assert not result.runs[0].learnt
    (alibi,) = request("alibi", stretches=("none", "yarn")).jobs()
    assert {run.stretch for run in run_job(alibi).runs} == {"none"}


def test_the_same_job_gives_the_same_bits_again_and_as_json() -> None:
    (job,) = request("t5").jobs()
    first, second = run_job(job), run_job(job)
    assert first == second
    assert JobResult.from_fields(first.fields()) == first


def test_models_begin_and_are_fed_alike_whatever_their_encoding(tmp_path) -> None:
    results = [run_job(job) for job in request("nope", "rope", steps=10).jobs()]
    assert results[0].training[0][0] == results[1].training[0][0] == 10
    assert results[0].runs[0].lengths != results[1].runs[0].lengths


class _Stopped(BaseException):
    pass


def test_a_run_that_goes_on_from_its_checkpoint_has_the_bits_of_one_never_stopped(
    tmp_path,
) -> None:
    (job,) = request("rope+t5", steps=23, stretches=("none", "window")).jobs()
    checkpoint = tmp_path / "job.safetensors"

    def stop_at_15(done: int, total: int) -> None:
        if done == 15:
            raise _Stopped

    with pytest.raises(_Stopped):
        run_job(job, checkpoint, stop_at_15)
    assert checkpoint.exists()
    steps: list[int] = []
    resumed = run_job(job, checkpoint, lambda done, _: steps.append(done))
    assert steps[0] == 16
    assert resumed == run_job(job)


def test_a_checkpoint_of_another_job_or_none_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(training, "STEPS_A_CHECKPOINT", 2)
    checkpoint = tmp_path / "job.safetensors"
    (job,) = request("rope").jobs()
    run_job(job, checkpoint)
    (other,) = request("rope", steps=7).jobs()
    with pytest.raises(InvalidInput, match="checkpoint of another job"):
        run_job(other, checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
    with pytest.raises(InvalidInput, match="is no checkpoint of this job"):
        run_job(job, checkpoint)


def test_training_learns(tmp_path) -> None:
    text = tmp_path / "text"
    text.write_text("abcdefgh" * 500)
    (job,) = request("rope", tasks=("text",), text=str(text), steps=100, batch=8, seeds=1).jobs()
    losses = [row[1] for row in run_job(job).training]
    assert losses[-1] < 0.5 * losses[0]


def test_text_is_tested_on_the_same_last_characters_at_each_length(tmp_path) -> None:
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat, and " * 200)
    (job,) = request(
        "alibi", tasks=("text",), text=str(text), trained=20, steps=4, tests=("2x", "3x")
    ).jobs()
    (first, *_) = run_job(job).runs
    assert [len(each.by_position) for each in first.lengths] == [20, 40, 60]
    for each in first.lengths:
        assert each.last == pytest.approx(np.mean(each.by_position[-10:]), abs=1e-5)
        assert each.accuracy is None
    assert first.induction is not None


def test_positions_drawn_at_random_reach_past_the_trained_length() -> None:
    (job,) = request("sinusoidal", tasks=("text",), trained=12, positions=64).jobs()
    (plain,) = request("sinusoidal", tasks=("text",), trained=12).jobs()
    assert run_job(job).runs[0].lengths != run_job(plain).runs[0].lengths
    (short,) = request("sinusoidal", tasks=("text",), trained=12, positions=20).jobs()
    with pytest.raises(InvalidInput, match="--randomize 20: the longest test has 24 positions"):
        run_job(short)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tests": ("5",)}, "--test 5: is shorter than --train 8"),
        ({"last": 9}, "--last 9: is more than --train 8"),
        ({"tests": ("100000",)}, "--test 100000: 200001 columns of a sequence; at most 8192"),
        ({"tasks": ("nothing",)}, "unknown task 'nothing'"),
    ],
)
def test_a_request_for_what_is_not_there_is_refused_before_training(changes, message) -> None:
    (job,) = request("rope", **changes).jobs()
    with pytest.raises(InvalidInput, match=message):
        run_job(job)
