"""What similarities are looked at: of an encoding, of each part of a hybrid, of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.similarity import similarity, similarity_of_array
from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.analysis.similarity import Normalization, QueryKeyContent, Similarity
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.files.reading import Loaded


class SimilarityPart(Record):
    """What is looked at, of a hybrid a part: what computes it, and what was asked for.

    ``subject`` is the place of what it is of among all that are named, and ``source`` its model or
    config. What is read from a file has no ``request``.
    """

    similarity: Similarity
    engine: Engine
    fields: dict[str, Any]
    subject: int = 0
    request: Request | None = None
    source: str = ""

    @property
    def short(self) -> str:
        """What it was named by."""
        named = self.similarity.name if self.request is None else self.request.scheme.name
        return self.source or named

    @property
    def metadata(self) -> dict[str, Any]:
        """What goes with its values in a file."""
        return {"quantity": self.similarity.quantity, **self.fields}


def part_of_array(
    loaded: Loaded, *, name: str, normalize: Normalization, place: int = 0
) -> SimilarityPart:
    """The rows of an array that was read; ``place`` is its place among all subjects."""
    subject = similarity_of_array(loaded.values, loaded.dtype, name=name, normalize=normalize)
    shape = list(loaded.values.shape)
    fields = {"in": loaded.path, "shape": shape, "dtype": loaded.dtype, "normalize": normalize}
    engine = Engine(threads=threads_for(subject.count**2, None))
    return SimilarityPart(subject, engine, fields, place)


def parts_of(
    choices: Mapping[int, Choice],
    *,
    contents: Sequence[QueryKeyContent] = (),
    normalize: Normalization = "dot",
    head: int | None = None,
) -> list[SimilarityPart]:
    """Encodings by their place among all subjects, or their parts; rotary ones with each content.

    Raises: InvalidInput where none of them has what is asked for.
    """
    schemes = [part.scheme for choice in choices.values() for part in choice.parts or (choice,)]
    kinds = [scheme.kind for scheme in schemes]
    asked = [("--content", content, "rotary") for content in contents]
    for flag, value, kind in (*asked, ("--head", head, "bias")):
        if value is not None and kind not in kinds:
            names = ", ".join(dict.fromkeys(choice.name for choice in choices.values()))
            raise InvalidInput(
                f"{flag} {value}: goes with {kind} schemes; {names} is "
                f"{' and '.join(dict.fromkeys(kinds))}"
            )
    return [
        part
        for place, choice in choices.items()
        for part in _parts_of_choice(choice, place, contents or ("ones",), normalize, head)
    ]


def _parts_of_choice(
    choice: Choice,
    place: int,
    contents: Sequence[QueryKeyContent],
    normalize: Normalization,
    head: int | None,
) -> Iterator[SimilarityPart]:
    kinds = [part.scheme.kind for part in choice.parts or (choice,)]
    one_head = (head or 0) if "bias" in kinds else None
    for request in choice.requests(Precision.of(FLOAT64, None), head=one_head):
        engine = choice.engine(request.plan())
        description = request.description()
        names = ("scheme", "params", "positions", "head", "weights")
        fields = {name: description[name] for name in names}
        turned = request.scheme.kind == "rotary"
        for content in contents if turned else contents[:1]:
            subject = similarity(request, engine, content=content, normalize=normalize)
            yield SimilarityPart(
                subject,
                replace(engine, threads=threads_for(subject.count**2, choice.threads)),
                {**fields, "content": content if turned else None, "normalize": normalize},
                place,
                request,
                choice.source,
            )
