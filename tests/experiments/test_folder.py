"""Run folders: what they keep, what they refuse, and how several become one."""

import functools
import json
import operator
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.experiments.folder import RunFolder
from posenc_cli.experiments.request import JobResult, LengthLosses, RunResult
from tests.experiments.small import request


def result(job, loss: float = 1.5) -> JobResult:
    lengths = (LengthLosses(8, loss, 1.25, (2.0, 0.5), 0.5, None), LengthLosses(16, 3.0, 2.0, ()))
    runs = tuple(
        RunResult(job.encoding.label, "rope", "none", job.task, seed, True, "so", None, lengths)
        for seed in job.seeds
    )
    return JobResult(job.key, 8, runs, ((10, 2.0, 2.5),), {"torch": "2"})


def test_a_request_and_results_come_back_as_they_were(tmp_path):
    asked = request("rope", "sinusoidal+alibi", seeds=7, stretches=("none", "yarn"))
    folder = RunFolder.made(tmp_path / "run", asked)
    jobs = asked.jobs()
    assert [list(job.seeds) for job in jobs] == 2 * [[0, 1, 2, 3, 4], [5, 6]]
    assert folder.missing(jobs) == [*jobs]
    folder.keep(jobs[0], result(jobs[0]))
    again = RunFolder.found(tmp_path / "run")
    assert again.request == asked
    assert again.result(jobs[0]) == result(jobs[0])
    assert again.missing(jobs) == [*jobs[1:]]


def test_a_folder_that_holds_anything_is_not_taken_for_a_new_run(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="exists and is not empty"):
        RunFolder.made(tmp_path, request("rope"))
    with pytest.raises(Unavailable, match="Not a directory"):
        RunFolder.made(tmp_path / "mine.txt" / "run", request("rope"))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Within it no file grows beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_a_folder_that_a_new_run_or_a_resumed_one_takes(tmp_path):
    asked, path = request("rope"), tmp_path / "run"
    for empty in (False, True):
        if empty:
            path.mkdir()
        with room_for(100), pytest.raises(Unavailable, match=r"run/request\.json'"):
            RunFolder.made(path, asked)
        assert path.exists() == empty
    folder = RunFolder.made(path, asked)
    (job,) = asked.jobs()
    with room_for(100), pytest.raises(Unavailable, match=r"cannot write '.*/results/"):
        folder.keep(job, result(job))
    assert RunFolder.found(path).missing([job]) == [job]
    (path / "results").rmdir()  # which a disk without room may lack as well
    again = RunFolder.found(path)
    again.make_room()
    again.keep(job, result(job))
    assert again.result(job) == result(job)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"encodings": 3}', "\0", "[" * 9999])
def test_a_file_that_is_not_posencs_is_named_in_one_line(tmp_path, content):
    asked = request("rope")
    folder = RunFolder.made(tmp_path / "run", asked)
    (job,) = asked.jobs()
    place = tmp_path / "run" / "results" / f"{job.key}.json"
    place.write_text(content)
    with pytest.raises(InvalidInput, match=r"is not a result of this job"):
        folder.result(job)
    (tmp_path / "run" / "request.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"request\.json'? is not an experiment's request"):
        RunFolder.found(tmp_path / "run")


def test_a_result_of_another_job_is_refused(tmp_path):
    asked = request("rope", "alibi")
    folder = RunFolder.made(tmp_path / "run", asked)
    first, second = asked.jobs()
    folder.keep(first, result(first))
    names = [tmp_path / "run" / "results" / f"{job.key}.json" for job in (first, second)]
    names[0].rename(names[1])
    with pytest.raises(InvalidInput, match="is not a result of this job"):
        folder.result(second)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seeds", 10**12),
        ("steps", "6"),
        ("batch", 1.5),
        ("trained", -1),
        ("learning_rate", float("nan")),
        ("size", "99x1x1"),
        ("tests", ["9" * 5000]),
        ("tasks", []),
        ("device", 3),
        ("encodings", []),
        ("encodings", [{"label": None, "parts": [["rope", {}]]}]),
        ("encodings", [{"label": "x", "parts": [[["rope"], {}]]}]),
        ("encodings", [{"label": "x", "parts": [["rope", {"base": [1]}]]}]),
    ],
)
def test_a_request_is_held_to_what_a_command_line_could_ask_for(tmp_path, name, value):
    place = RunFolder.made(tmp_path / "run", request("rope")).request_path
    place.write_text(json.dumps({**json.loads(place.read_text()), name: value}))
    with pytest.raises(InvalidInput, match="is not an experiment's request"):
        RunFolder.found(tmp_path / "run")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("trained",), "8"),
        (("runs", 0, "learnt"), 1),
        (("runs", 0, "lengths"), []),
        (("runs", 0, "lengths", 0, "length"), 9),
        (("runs", 0, "lengths", 0, "loss"), None),
        (("runs", 0, "lengths", 0, "by_position"), ["x"]),
        (("runs", 0, "reason"), []),
    ],
)
def test_a_result_holds_what_its_job_finds_and_nothing_else(tmp_path, path, value):
    asked = request("rope")
    folder = RunFolder.made(tmp_path / "run", asked)
    (job,) = asked.jobs()
    folder.keep(job, result(job))
    place = tmp_path / "run" / "results" / f"{job.key}.json"
    fields = json.loads(place.read_text())
    functools.reduce(operator.getitem, path[:-1], fields)[path[-1]] = value
    place.write_text(json.dumps(fields))
    with pytest.raises(InvalidInput, match="is not a result of this job"):
        folder.result(job)


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path):
    place = RunFolder.made(tmp_path / "run", request("rope")).request_path
    os.truncate(place, 1 << 40)  # a sparse file
    with pytest.raises(InvalidInput, match=r"request\.json'? is larger than 256 MiB"):
        RunFolder.found(tmp_path / "run")
