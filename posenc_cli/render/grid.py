"""How small pictures share the room of a large one."""

from __future__ import annotations


def grid_of(
    count: int, size: tuple[float, float], least: tuple[float, float], *, aspect: float
) -> tuple[int, int]:
    """Rows and columns of a grid in which ``count`` pictures, or as many as fit, are largest.

    ``size`` and ``least`` are the width and height of the whole and of the smallest picture;
    ``aspect`` is how many units of width are as long as one of height.

    >>> grid_of(8, (80, 20), (12, 5), aspect=2), grid_of(100, (80, 20), (12, 5), aspect=2)
    ((2, 4), (4, 6))
    """
    most_across = max(1, int(size[0] // least[0]))
    most_down = max(1, int(size[1] // least[1]))
    fitting = [
        (-(-count // across), across)
        for across in range(1, min(count, most_across) + 1)
        if -(-count // across) <= most_down
    ]
    if not fitting:
        return most_down, most_across

    def side(grid: tuple[int, int]) -> tuple[float, int]:
        # Of grids as good, the one with fewer empty places.
        return min(size[0] / grid[1], aspect * size[1] / grid[0]), -grid[0] * grid[1]

    return max(fitting, key=side)
