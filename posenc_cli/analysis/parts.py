"""What similarities are looked at: of an encoding, of each part of a hybrid, of an array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.similarity import similarity, similarity_of_array
from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.analysis.similarity import Normalization, QueryKeyContent, Similarity
    from posenc_cli.choice import Choice
    from posenc_cli.files.reading import Loaded


class SimilarityPart(Record):
    """What is looked at, of a hybrid a part: what computes it, and what was asked for."""

    similarity: Similarity
    engine: Engine
    fields: dict[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """What goes with its values in a file."""
        fields = {"quantity": self.similarity.quantity, **self.fields}
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in fields.items()
            if value is not None
        }


def part_of_array(loaded: Loaded, *, name: str, normalize: Normalization) -> SimilarityPart:
    """The rows of an array that was read."""
    subject = similarity_of_array(loaded.values, loaded.dtype, name=name, normalize=normalize)
    shape = list(loaded.values.shape)
    fields = {"in": loaded.path, "shape": shape, "dtype": loaded.dtype, "normalize": normalize}
    return SimilarityPart(subject, Engine(threads=threads_for(subject.count**2, None)), fields)


def parts_of(
    choice: Choice,
    *,
    content: QueryKeyContent | None = None,
    normalize: Normalization = "dot",
    head: int | None = None,
) -> list[SimilarityPart]:
    """An encoding, or the parts of a hybrid.

    Raises: InvalidInput where none of them has what is asked for.
    """
    kinds = [part.scheme.kind for part in choice.parts or (choice,)]
    for flag, value, kind in (
        ("--content", content, "rotary"),
        ("--head", head, "bias"),
    ):
        if value is not None and kind not in kinds:
            raise InvalidInput(
                f"{flag} {value}: goes with {kind} schemes; {choice.name} is "
                f"{' and '.join(dict.fromkeys(kinds))}"
            )
    one_head = (head or 0) if "bias" in kinds else None
    parts = []
    for request in choice.requests(Precision.of(FLOAT64, None), head=one_head):
        engine = choice.engine(request.plan())
        subject = similarity(request, engine, content=content or "ones", normalize=normalize)
        held = (content or "ones") if request.scheme.kind == "rotary" else None
        description = request.description()
        names = ("scheme", "params", "positions", "head", "weights")
        fields = {name: description[name] for name in names}
        parts.append(
            SimilarityPart(
                subject,
                replace(engine, threads=threads_for(subject.count**2, choice.threads)),
                {**fields, "content": held, "normalize": normalize},
            )
        )
    return parts
