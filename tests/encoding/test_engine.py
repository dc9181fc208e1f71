"""Engines: threads keep order and bytes, errors pass, and only a few blocks wait."""

import threading
import time

import pytest

from posenc_cli.encoding.arrays import BLOCK_VALUES
from posenc_cli.encoding.engine import THREADS_FROM, Engine, processors, threads_for
from tests.matrices import request
from tests.processes import PATIENCE


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_results_come_in_the_order_of_the_items(threads):
    def slow_at_first(item):
        time.sleep(0.01 if item < 3 else 0)
        return item

    assert list(Engine(threads=threads).in_order(slow_at_first, range(40))) == list(range(40))


def test_two_threads_work_at_the_same_time():
    together = threading.Barrier(2, timeout=PATIENCE)

    def meet(_):
        together.wait()
        return True

    assert all(Engine(threads=2).in_order(meet, range(4)))


def test_only_a_few_results_wait_for_a_slow_reader():
    started = []
    results = Engine(threads=2).in_order(started.append, range(1000))
    next(results)
    # One was given out, and two threads and a place in the queue hold the rest.
    while len(started) < 3:
        time.sleep(0.001)
    time.sleep(0.05)  # in which more would start, if they could
    assert len(started) == 3
    results.close()
    assert len(started) == 3


def test_closing_waits_for_what_runs_and_drops_what_waits():
    release, started, finished = threading.Event(), [], []

    def held(item):
        started.append(item)
        assert release.wait(60) or item == 0
        finished.append(item)

    release.set()
    results = Engine(threads=2).in_order(held, range(1000))
    next(results)
    release.clear()
    next_ones = threading.Thread(target=lambda: (time.sleep(0.05), release.set()))
    next_ones.start()
    results.close()
    assert sorted(finished) == sorted(started)
    assert len(started) <= 3
    next_ones.join()


def test_without_threads_this_one_does_the_work(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(Engine(threads=2).in_order(lambda item: item * 2, range(9))) == list(
        range(0, 18, 2)
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_reaches_the_reader(threads):
    def fails(item):
        if item == 5:
            raise ZeroDivisionError
        return item

    results = Engine(threads=threads).in_order(fails, range(100))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("scheme", "settings"),
    [
        ("rope", {"dim": 128, "dtype": "float64"}),
        ("rope", {"dim": 128, "dtype": "float32"}),
        ("rope", {"table": "angles"}),
        ("sinusoidal", {"dim": 129, "odd": "split", "dtype": "bfloat16"}),
        ("normalized", {"dtype": "float16"}),
        ("learned", {"extend": "random"}),
    ],
)
def test_threads_never_change_a_byte(scheme, settings):
    plan = request(scheme, "12345:20000,7", **settings).plan()
    one = b"".join(block.tobytes() for block in plan.matrix().blocks())
    for threads in (2, 5):
        engine = Engine(threads=threads)
        assert b"".join(block.tobytes() for block in plan.matrix(engine).blocks()) == one


def test_two_threads_of_numpy_share_the_memory_of_one_block():
    """Blocks were as large for each thread: 4 MiB more for a table of a million rows, now 2.7."""
    plan = request("rope", "0:5000").plan()
    largest = [max(b.size for b in plan.matrix(Engine(threads=n)).blocks()) for n in (1, 2)]
    assert largest == [BLOCK_VALUES, BLOCK_VALUES // 2]


def test_threads_follow_the_size_of_the_job_unless_asked():
    assert threads_for(THREADS_FROM - 1, None) == 1
    assert threads_for(THREADS_FROM, None) == min(2, processors())
    assert threads_for(1, 7) == 7
