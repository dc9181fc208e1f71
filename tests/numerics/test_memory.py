"""Values that are kept: made once, by one thread, and forgotten in the order they came."""

import threading
import time

import pytest

from posenc_cli.numerics.memory import LRUCache


def test_threads_that_ask_together_get_the_one_value_that_one_of_them_made():
    made, kept, together = [], LRUCache(2), threading.Barrier(4)

    def make():
        time.sleep(0.02)
        made.append(object())
        return made[-1]

    def ask():
        together.wait()
        found.append(kept.get("key", make))

    found = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
    assert found == made * 4


def test_the_oldest_gives_way():
    kept = LRUCache(2)
    for key in "abc":
        kept.get(key, lambda: key)  # noqa: B023 - called at once
    assert [key in kept for key in "abc"] == [False, True, True]
    assert len(kept) == 2


def test_what_could_not_be_made_is_not_kept_and_drops_nothing():
    kept = LRUCache(1)
    kept.get("a", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        kept.get("b", lambda: 1 // 0)
    assert "a" in kept
    assert kept.get("b", lambda: 2) == 2
