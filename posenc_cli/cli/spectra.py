"""What ``posenc spectrum`` looks at, and how it tells of it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.similarity import rows_of, rows_of_array
from posenc_cli.analysis.spectrum import (
    DEFAULT_CONTEXT,
    along,
    context_of,
    neighbours,
    power_spectrum,
    spectrum_fields,
    wave_spectrum,
)
from posenc_cli.budget import REPEATED_COLUMNS, check_size
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Encoding, Request
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.reading import read_array
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.render.encoded import parameters_text
from posenc_cli.render.spectra import (
    MOST_ROWS,
    column_names,
    neighbour_fields,
    power_fields,
    power_figure,
    power_sentences,
    power_table,
    wave_figure,
    wave_sentences,
    wave_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.analysis.products import MatrixRows
    from posenc_cli.analysis.spectrum import Along
    from posenc_cli.cli.choosing import Choice
    from posenc_cli.render.figure import Curves


class SpectrumReport(Record):
    """A spectrum, ready to be shown: a table of so many rows in all, a figure, and words.

    Where no column changes there is no figure.
    """

    columns: list[str]
    rows: list[list[str]]
    all_rows: int
    figure: Curves | None
    sentences: list[str]
    fields: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def drawable(self) -> Curves:
        """The figure.

        Raises: InvalidInput where there is none.
        """
        if self.figure is None:
            raise InvalidInput("--out: no column changes, so there is no spectrum to draw")
        return self.figure

    @property
    def notes(self) -> list[str]:
        """What is to be said below the table."""
        if self.all_rows <= MOST_ROWS:
            return self.sentences
        elided = f"the table has {len(self.rows)} of {self.all_rows} rows; --json has them all"
        return [elided, *self.sentences]


def of_file(source: str) -> SpectrumReport:
    """The power spectrum of the columns of a file.

    Raises: InvalidInput, Unavailable: it cannot be read, or is no matrix.
    """
    loaded = read_array(source)
    values = loaded.values[:, None] if loaded.values.ndim == 1 else loaded.values
    rows = rows_of_array(values, loaded.dtype, name=quoted_name(source))
    asked = {"in": source, "shape": list(loaded.values.shape), "dtype": loaded.dtype}
    return _of_rows(rows, quoted_name(source), asked, complex_values=values.dtype.kind == "c")


def of_choice(choice: Choice) -> SpectrumReport:
    """The waves of an encoding, or the power spectrum of its columns.

    Raises: InvalidInput where it is a bias, or its positions are not evenly spaced.
    """
    encoding = choice.encoding()
    content = encoding.bound.content
    if content.heads is not None:
        raise InvalidInput(
            f"--scheme {choice.name}: is a bias, which has neither waves nor rows of positions",
            hint=f"posenc dot-similarity --scheme {choice.name} shows it",
        )
    if content.waves is not None:
        return _of_waves(choice, encoding)
    capacity = content.capacity
    if choice.positions is None:
        count = min(DEFAULT_CONTEXT, capacity.positions) if capacity else DEFAULT_CONTEXT
        choice = replace(choice, positions=Positions.contiguous(0, count))
        encoding = choice.encoding()
    assert choice.positions is not None
    if len(choice.positions.ranges) > 1:
        raise InvalidInput(
            f"--positions {choice.positions}: a spectrum needs positions at equal steps",
            hint="--len N, or --positions start:stop:step",
        )
    request = _request(encoding, choice.positions)
    rows = rows_of(request, choice.engine(request.plan()))
    step = choice.positions.ranges[0].step
    rows_along = along(encoding.bound)
    name = _named(choice, encoding)
    return _of_rows(rows, name, _asked(request), step=step, rows_along=rows_along)


def _named(choice: Choice, encoding: Encoding) -> str:
    """What a figure is of: the model, the scheme and its parameters."""
    last = None if choice.positions is None else choice.positions.last
    told = parameters_text(encoding.bound, last=last)
    source = f"{quoted_name(choice.source)}: " if choice.source else ""
    return f"{source}{choice.name}" + (f" ({told})" if told else "")


def _of_waves(choice: Choice, encoding: Encoding) -> SpectrumReport:
    width = _request(encoding, Positions.contiguous(0, 1)).plan().shape[-1]
    check_size(f"dim={width} of {choice.name}", width, REPEATED_COLUMNS, "columns of waves")
    context, origin = context_of(encoding, choice.positions, choice.context)
    original = encoding.bound.params.get("original_max_position_embeddings") or None
    of_original = [f"the original context is {original} positions"] if original else []
    found = wave_spectrum(encoding.bound, context, choice.positions)
    request = _request(encoding, Positions.contiguous(0, 1))
    searched = choice.positions or Positions.contiguous(0, context)
    equal = neighbours(request, searched, choice.engine(request.plan()))
    columns, rows = wave_table(found)
    asked = {**_asked(request), "positions": choice.positions and str(choice.positions)}
    return SpectrumReport(
        columns,
        rows,
        len(found.wavelengths),
        wave_figure(found, name=_named(choice, encoding)),
        [
            *wave_sentences(found, equal, origin=origin),
            *(of_original if original != context else ()),
        ],
        {
            **asked,
            "kind": "waves",
            "context_from": origin,
            "original_context": original,
            **spectrum_fields(found),
            "neighbours": neighbour_fields(equal),
        },
    )


def _of_rows(
    rows: MatrixRows,
    name: str,
    asked: Mapping[str, Any],
    *,
    step: int = 1,
    rows_along: Along = "positions",
    complex_values: bool = False,
) -> SpectrumReport:
    found = replace(power_spectrum(rows, name=name), along=rows_along)
    if step != 1:
        found = replace(found, wavelengths=found.wavelengths * step, dominant=found.dominant * step)
    names = column_names(rows.width, complex_values=complex_values)
    columns, table = power_table(found, names)
    dropped = len(found.dropped)
    warning = f"{name}: {dropped} of {rows.width} columns are not finite, and left out"
    return SpectrumReport(
        columns,
        table,
        rows.width,
        power_figure(found, name=name) if found.power.any() else None,
        power_sentences(found),
        {**asked, "kind": "power", "columns": names, **power_fields(found)},
        (warning,) if dropped else (),
    )


def _request(encoding: Encoding, positions: Positions) -> Request:
    return Request(encoding, positions, Precision.of(FLOAT64, None))


def _asked(request: Request) -> dict[str, Any]:
    told = request.description()
    return {name: told[name] for name in ("scheme", "params", "positions", "weights")}
