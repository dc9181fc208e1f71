"""Memory, measured so that neither load nor what ran before is in the number."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

HIGH_WATER = """
def high_water():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
"""
"""Code for a process of its own: the most memory it had, in bytes.

Not ru_maxrss, which a process inherits from the one that started it: a growing one would not show.
"""
HAS_HIGH_WATER = Path("/proc/self/status").exists()


def peak(function: Callable[[], Any]) -> int:
    """The bytes that Python and NumPy held at most while ``function`` ran, in this process."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
