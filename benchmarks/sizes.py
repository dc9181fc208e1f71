"""Define the sizes and the repetitions of each benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Rows of tables, lengths of jobs and numbers of repetitions."""

    rows: int
    repetitions: int
    text_rows: int
    memory_lengths: tuple[int, ...]
    memory_runs: int
    growth_lengths: tuple[int, ...]
    process_rounds: int
    neighbours: int
    threads: tuple[int, ...] = (1, 2)


FULL = Sizes(
    rows=1 << 20,
    repetitions=7,
    text_rows=1 << 14,
    memory_lengths=tuple(1 << power for power in range(12, 25, 2)),
    memory_runs=3,
    growth_lengths=tuple(1 << power for power in range(12, 23, 2)),
    process_rounds=31,
    neighbours=15,
)

QUICK = Sizes(
    rows=1 << 18,
    repetitions=5,
    text_rows=1 << 10,
    memory_lengths=(1 << 12, 1 << 18),
    memory_runs=1,
    growth_lengths=(1 << 12, 1 << 16),
    process_rounds=5,
    neighbours=3,
)
