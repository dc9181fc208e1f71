"""A property of an encoding, what is known of all of them, and what they are measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.analysis.profile import wave_weights
from posenc_cli.encoding.scores import score_rule
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.analysis.inspection.inspected import InspectedRows
    from posenc_cli.analysis.inspection.shift import LinearShift
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.request import Request
    from posenc_cli.encoding.scores import ScoreRule
    from posenc_cli.files.reading import Loaded
    from posenc_cli.formulas.declare import Content, Waves
    from posenc_cli.numerics.arrays import Reals

HowKnown = Literal["proved", "measured"]
Sampled = Literal["value", "verdict"]


class Property(Record):
    """A property: whether it ``holds`` (None: it does not apply), its value, and where that is.

    ``reason`` says why, ``at`` names positions, or offsets, keys or rows as the inspection does.
    ``sample`` says that not all that the value, or the verdict too, speaks of was looked at;
    ``details`` are further numbers.
    """

    name: str
    holds: bool | None
    value: float | None = None
    at: tuple[int, ...] | None = None
    evidence: HowKnown = "measured"
    reason: str = ""
    sample: Sampled | None = None
    details: Mapping[str, Any] = fresh(dict)


class Cost(Record):
    """What applying an encoding takes, its table at hand: so many operations of a sort, each time.

    Of a token and head, queries and keys together are turned.
    """

    operations: int
    sort: Literal["additions", "multiply-adds"]
    per: Literal["token", "token and head", "score"]

    @property
    def text(self) -> str:
        """In words."""
        if not self.operations:
            return "nothing"
        sort = self.sort.removesuffix("s") if self.operations == 1 else self.sort
        return f"{self.operations} {sort} a {self.per}"


class Inspection(Record):
    """The properties of one encoding or file, and what was looked at.

    ``parameters`` counts the numbers that are trained; it and ``cost`` are None of a file.
    """

    name: str
    kind: str | None
    params: Mapping[str, Any]
    looked_at: str
    axis: str
    count: int
    properties: tuple[Property, ...]
    parameters: int | None = None
    cost: Cost | None = None
    random_weights: str | None = None
    shift: LinearShift | None = None

    def property(self, name: str) -> Property:
        """The property of a name."""
        return next(known for known in self.properties if known.name == name)


class InspectedEncoding(Record):
    """What is inspected: its rows, and what its declaration says where it has one.

    ``weights`` count each wave where all have as many sines as cosines.
    """

    inspected: InspectedRows
    engine: Engine
    request: Request | None = None
    loaded: Loaded | None = None
    name: str = ""

    @property
    def content(self) -> Content | None:
        """What its scheme declares; None of a file."""
        return None if self.request is None else self.request.encoding.bound.content

    @property
    def kind(self) -> str | None:
        """The kind of its scheme; None of a file."""
        return None if self.request is None else self.request.scheme.kind

    @property
    def waves(self) -> Waves | None:
        """Its waves; None where it is made of none."""
        return None if self.content is None else self.content.waves

    @property
    def weights(self) -> Reals | None:
        """How often each wave has a sine and a cosine; None where one lacks some, or it grows."""
        if self.content is None or self.waves is None or self.waves.growth is not None:
            return None
        return wave_weights(self.waves.count, self.content.columns().placements)

    @property
    def complete(self) -> bool:
        """Whether the declaration shows that rows at one offset differ by one rotation."""
        waves = self.waves
        by_position = waves is not None and waves.count > 0 and waves.coordinates is None
        return by_position and self.weights is not None

    @property
    def unused(self) -> bool:
        """Whether the rows are declared not to depend on positions."""
        return self.content is not None and self.content.positions == "unused"


def score_rule_of(request: Request, engine: Engine) -> ScoreRule:
    """The scores of a bias by offset or key, as its request asks for them."""
    content, lookup = request.encoding.bound.content, request.encoding.lookup
    return score_rule(content, lookup, precision=request.precision, engine=engine)
