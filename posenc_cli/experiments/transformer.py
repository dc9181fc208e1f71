"""A causal transformer, batched over seeds.

Every parameter and every value has the seeds as its first axis, so that one product computes all of
them; seeds never mix. The model is decoder-only, with pre-layer normalization, and without dropout
or biases. Positions enter through four hooks, one for each kind of encoding
(:mod:`posenc_cli.experiments.tables`); the model knows no scheme.

Imports torch: import it only where something is trained.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc_cli.experiments.request import CLIP, LOG_N, WINDOW, ModelSize
from posenc_cli.experiments.tables import (
    AddedRows,
    DistanceRows,
    EncodingEntry,
    EncodingPart,
    Learnable,
    PairRotations,
    ScoresByPair,
)
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.numerics.arrays import Integers

    Parameters = Mapping[str, Tensor]

WIDER = 2
"""The width of the feed-forward layer, as a multiple of the model's."""

_QUERIES_A_BLOCK = 128
"""The queries of a block. A block computes no scores for later keys, so half of a long sequence's
pairs are skipped."""


class Transformer(Record):
    """A model's architecture: its size, its vocabulary, and its encoding."""

    size: ModelSize
    vocabulary: int
    parts: tuple[EncodingPart, ...]

    def first_parameters(self, seeds: Sequence[int]) -> dict[str, Tensor]:
        """Return the initial parameters, each (seeds, …) float32.

        Each depends only on its name, its shape and the seed. So models of different encodings
        start with the same values in all parameters that they share.
        """
        width = self.size.width
        inner = WIDER * width
        deep = (2 * self.size.layers) ** -0.5  # so that the sum over layers is about one
        shapes: dict[str, tuple[int, int, float]] = {
            "tokens": (self.vocabulary, width, width**-0.5),
            "out": (width, self.vocabulary, width**-0.5),
        }
        for layer in range(self.size.layers):
            shapes |= {
                f"{layer}.queries-keys-values": (width, 3 * width, width**-0.5),
                f"{layer}.heads": (width, width, deep * width**-0.5),
                f"{layer}.inner": (width, inner, width**-0.5),
                f"{layer}.outer": (inner, width, deep * inner**-0.5),
            }
        parameters = {
            name: torch.stack([_drawn(name, rows, columns, std, seed) for seed in seeds])
            for name, (rows, columns, std) in shapes.items()
        }
        for part in self.parts:
            if (learnable := part.learnable) is not None:
                first = [_first_values(learnable, seed) for seed in seeds]
                parameters[learnable.name] = torch.stack(first)
        return parameters

    def at(self, length: int, stretch: str, trained: int, device: torch.device) -> LengthModel:
        """Return the model for sequences of a length, under a context extension."""
        entries = [part.entry(length, stretch, trained) for part in self.parts]
        hooks = [
            _HOOKS[type(entry)](entry, part.learnable, device)
            for part, entry in zip(self.parts, entries, strict=True)
        ]
        visible = _VisibleKeys.of(length, stretch, trained, device)
        return LengthModel(self.size, hooks, visible, device)


class LengthModel:
    """A model at a length, with everything that is the same in each step."""

    def __init__(
        self,
        size: ModelSize,
        hooks: Sequence[Hook],
        visible_keys: _VisibleKeys,
        device: torch.device,
    ) -> None:
        self._size, self._hooks, self._visible, self._device = size, hooks, visible_keys, device
        self.set_positions(np.arange(visible_keys.length))

    @property
    def heads(self) -> int:
        """The number of heads of a layer."""
        return self._size.heads

    def set_positions(self, places: Integers) -> None:
        """Set the positions (n,) of sequences, in ascending order, out of the model's positions."""
        self._places = places
        starts = range(0, len(places), _QUERIES_A_BLOCK)
        self._blocks = [
            self._block(slice(i, min(i + _QUERIES_A_BLOCK, len(places)))) for i in starts
        ]

    def logits(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        """Return the logits for tokens (seeds, sequences, n): (seeds, sequences, n, vocabulary)."""
        seeds, sequences, count = tokens.shape
        size = self._size
        wide = tokens.reshape(seeds, sequences * count, 1).expand(-1, -1, size.width)
        x = torch.gather(parameters["tokens"], 1, wide).view(seeds, sequences, count, size.width)
        for hook in self._hooks:
            x = hook.with_rows(parameters, x, self._places)
        x = x.reshape(seeds, sequences * count, size.width)
        for layer in range(size.layers):
            mixed = torch.bmm(_normalized(x), parameters[f"{layer}.queries-keys-values"])
            split = mixed.view(seeds, sequences, count, 3, size.heads, size.head_dim)
            query, key, value = split.permute(3, 0, 1, 4, 2, 5).unbind()  # (S, B, H, n, columns)
            heads = self._attended(parameters, query, key, value).transpose(2, 3)
            x = x + torch.bmm(heads.reshape(x.shape), parameters[f"{layer}.heads"])
            inner = functional.relu(torch.bmm(_normalized(x), parameters[f"{layer}.inner"]))
            x = x + torch.bmm(inner, parameters[f"{layer}.outer"])
        return torch.bmm(_normalized(x), parameters["out"]).view(seeds, sequences, count, -1)

    def _attended(
        self, parameters: Parameters, query: Tensor, key: Tensor, value: Tensor
    ) -> Tensor:
        """Return the attention output of each query: (seeds, sequences, heads, n, columns)."""
        rotated, keys, far = query, key, None
        for hook in self._hooks:
            rotated, keys = hook.rotated(rotated, keys, self._places)
            if self._visible.far is not None:
                far = hook.rotated_at(query, key, self._visible.far - 1) or far
        blocks = []
        for block in self._blocks:
            queries, seen = block.queries, block.keys
            scores = rotated[..., queries, :] @ keys[..., seen, :].transpose(-1, -2)
            if far is not None and block.far is not None:
                distant = far[0][..., queries, :] @ far[1][..., seen, :].transpose(-1, -2)
                scores = torch.where(block.far, distant, scores)
            for hook, index in zip(self._hooks, block.indices, strict=True):
                scores = hook.with_products(parameters, scores, query[..., queries, :], index)
            scores = scores * self._size.head_dim**-0.5
            for hook, index in zip(self._hooks, block.indices, strict=True):
                scores = hook.with_bias(parameters, scores, index)
            if self._visible.factors is not None:
                scores = scores * self._visible.factors[self._places[queries], None]
            blocks.append((scores + block.mask).softmax(-1) @ value[..., seen, :])
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=3)

    def _block(self, queries: slice) -> _QueryBlock:
        places = self._places
        first = int(
            np.searchsorted(places, places[queries.start] - self._visible.window, side="right")
        )
        keys = slice(first, queries.stop)
        distances = places[queries, None] - places[None, keys]
        hidden = (distances < 0) | (distances >= self._visible.window)
        mask = np.where(hidden, -np.inf, 0.0).astype(np.float32)
        far = None
        beyond = distances >= (self._visible.far or self._visible.length)
        if beyond.any():
            far = torch.from_numpy(beyond).to(self._device)
        return _QueryBlock(
            queries,
            keys,
            torch.from_numpy(mask).to(self._device),
            far,
            tuple(hook.index(places[queries], places[keys]) for hook in self._hooks),
        )


class _VisibleKeys(Record):
    """The keys that queries see at a length: those less than ``window`` back.

    Keys ``far`` back or farther are treated as if they were just before that distance. ``factors``
    (length,) multiply the scores of each query.
    """

    length: int
    window: int
    far: int | None
    factors: Tensor | None

    @classmethod
    def of(cls, length: int, stretch: str, trained: int, device: torch.device) -> _VisibleKeys:
        """Return the visible keys at a length, under a context extension."""
        factors = None
        if stretch == LOG_N and length > trained:
            queries = torch.arange(1, length + 1, dtype=torch.float64)
            factors = (queries.log() / math.log(trained)).clamp(min=1).float().to(device)
        return cls(
            length,
            trained if stretch == WINDOW else length,
            trained if stretch == CLIP and length > trained else None,
            factors,
        )


class _QueryBlock(Record):
    """A block of queries: the keys that they see, the masked and far pairs, and score indices."""

    queries: slice
    keys: slice
    mask: Tensor
    far: Tensor | None
    indices: tuple[Tensor | None, ...]


class Hook:
    """The places where an encoding may enter a model; by default they change nothing."""

    def with_rows(self, parameters: Parameters, x: Tensor, places: Integers) -> Tensor:  # noqa: ARG002
        """Return the inputs (seeds, sequences, n, width), with rows for their positions added."""
        return x

    def rotated(self, query: Tensor, key: Tensor, places: Integers) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return queries and keys (…, n, columns), rotated by their positions."""
        return query, key

    def rotated_at(self, query: Tensor, key: Tensor, distance: int) -> tuple[Tensor, Tensor] | None:  # noqa: ARG002
        """Return queries and keys as if all pairs had this distance; None without a rotation."""
        return None

    def index(self, queries: Integers, keys: Integers) -> Tensor | None:  # noqa: ARG002
        """Return the score index of each pair, (queries, keys), or None."""
        return None

    def with_products(
        self,
        parameters: Parameters,  # noqa: ARG002
        scores: Tensor,
        query: Tensor,  # noqa: ARG002
        index: Tensor | None,  # noqa: ARG002
    ) -> Tensor:
        """Return products of queries and keys, (…, queries, keys), plus those with rows."""
        return scores

    def with_bias(self, parameters: Parameters, scores: Tensor, index: Tensor | None) -> Tensor:  # noqa: ARG002
        """Return scores (…, queries, keys), with a bias added."""
        return scores


def _float32(values: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float32)).to(device)


class _Mixed:
    """Rows that are fixed, or mixed from those of a learned table."""

    def __init__(
        self, entry: AddedRows | DistanceRows, learnable: Learnable | None, device: torch.device
    ) -> None:
        self._name = None if learnable is None else learnable.name
        self._rows = _float32(entry.fixed if entry.mixing is None else entry.mixing, device)

    def of(self, parameters: Parameters, places: Tensor | None = None) -> Tensor:
        """Return all rows, or those at some places: (seeds or 1, places, columns)."""
        rows = self._rows if places is None else self._rows[places]
        return rows[None] if self._name is None else rows @ parameters[self._name]


class _RowsAdded(Hook):
    """Absolute: x + rows."""

    def __init__(self, entry: AddedRows, learnable: Learnable | None, device: torch.device) -> None:
        self._rows = _Mixed(entry, learnable, device)

    def with_rows(self, parameters: Parameters, x: Tensor, places: Integers) -> Tensor:
        return x + self._rows.of(parameters, torch.from_numpy(places))[:, None]


class _PairsRotated(Hook):
    """Rotary: dimension pairs of queries and keys, rotated."""

    def __init__(
        self, entry: PairRotations, _learnable: Learnable | None, device: torch.device
    ) -> None:
        self._query, self._key = (
            (_float32(rotations.real, device), _float32(rotations.imag, device))
            for rotations in (entry.queries, entry.keys)
        )
        self._first, self._second = list(entry.first), list(entry.second)
        pairs = len(self._first)
        self._alternate = (self._first, self._second) == (
            [*range(0, 2 * pairs, 2)],
            [*range(1, 2 * pairs, 2)],
        )

    def rotated(self, query: Tensor, key: Tensor, places: Integers) -> tuple[Tensor, Tensor]:
        return self._rotate(query, self._query, places), self._rotate(key, self._key, places)

    def rotated_at(self, query: Tensor, key: Tensor, distance: int) -> tuple[Tensor, Tensor]:
        count = query.shape[-2]
        far, own = np.full(count, distance), np.zeros(count, np.int64)
        return self._rotate(query, self._query, far), self._rotate(key, self._key, own)

    def _rotate(self, x: Tensor, table: tuple[Tensor, Tensor], places: Integers) -> Tensor:
        cos, sin = (values[places] for values in table)
        rotary_dim = 2 * len(self._first)
        if self._alternate:  # slices are faster than lists of columns
            a, b = x[..., 0:rotary_dim:2], x[..., 1:rotary_dim:2]
            pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
            return (
                torch.cat([pairs, x[..., rotary_dim:]], dim=-1)
                if rotary_dim < x.shape[-1]
                else pairs
            )
        a, b = x[..., self._first], x[..., self._second]
        rotated = x.clone()
        rotated[..., self._first] = a * cos - b * sin
        rotated[..., self._second] = a * sin + b * cos
        return rotated


class _ProductsAdded(Hook):
    """Relative: q · the row of the distance back to the key."""

    def __init__(
        self, entry: DistanceRows, learnable: Learnable | None, device: torch.device
    ) -> None:
        self._rows = _Mixed(entry, learnable, device)
        self._last, self._device = entry.distances - 1, device

    def index(self, queries: Integers, keys: Integers) -> Tensor:
        distances = np.clip(queries[:, None] - keys[None, :], 0, self._last)
        return torch.from_numpy(distances).to(self._device)

    def with_products(
        self, parameters: Parameters, scores: Tensor, query: Tensor, index: Tensor | None
    ) -> Tensor:
        assert index is not None
        rows = self._rows.of(parameters)[:, None, None]  # (seeds or 1, 1, 1, distances, columns)
        products = query @ rows.transpose(-1, -2)  # (…, queries, distances)
        return scores + products.gather(-1, index.expand(scores.shape))


class _BiasAdded(Hook):
    """Bias: a score for each head and pair."""

    def __init__(
        self, entry: ScoresByPair, learnable: Learnable | None, device: torch.device
    ) -> None:
        self._entry, self._device = entry, device
        self._name = None if learnable is None else learnable.name
        self._fixed, self._coordinates, self._arguments = (
            None if values is None else _float32(values, device)
            for values in (entry.fixed, entry.coordinates, entry.arguments)
        )

    def index(self, queries: Integers, keys: Integers) -> Tensor:
        numbers = np.ascontiguousarray(self._entry.index(queries, keys))
        return torch.from_numpy(numbers).to(self._device)

    def with_bias(self, parameters: Parameters, scores: Tensor, index: Tensor | None) -> Tensor:
        values = self._values(parameters)  # (seeds or 1, heads, numbers)
        assert index is not None
        added = values[:, :, index.reshape(-1)].view(*values.shape[:2], *index.shape)
        return scores + added[:, None]

    def _values(self, parameters: Parameters) -> Tensor:
        """Return the score of each index, for each head: (seeds or 1, heads, numbers)."""
        if self._fixed is not None:
            return self._fixed[None]
        assert self._name is not None
        table = parameters[self._name]
        if self._arguments is not None:
            return self._formula_scores(table, self._arguments)
        if self._coordinates is not None:
            return self._network_scores(table, self._coordinates)
        return table.transpose(1, 2)

    def _formula_scores(self, table: Tensor, arguments: Tensor) -> Tensor:
        """Return a formula's scores from the logarithms (S, k, H) of its learned coefficients."""
        formula = self._entry.formula
        assert formula is not None
        if formula.profile is not None:
            arguments = formula.profile(torch, arguments)
        coefficients = tuple(row[..., None] for row in table.exp().unbind(1))  # (S, H, 1) each
        given = coefficients if len(coefficients) > 1 else coefficients[0]
        return formula.scores(torch, given, arguments)

    def _network_scores(self, table: Tensor, coordinates: Tensor) -> Tensor:
        """Return the scores of a two-layer network.

        Its units are the rows of the table (S, units, …).
        """
        network = self._entry.network
        assert network is not None
        inputs = coordinates.shape[1]
        units = table[:, :-1] if network.shifted else table
        first, shift = units[..., :inputs], units[..., inputs]
        hidden = functional.relu(coordinates @ first.transpose(1, 2) + shift[:, None])
        scores = hidden @ units[..., inputs + 1 :]  # (S, numbers, heads)
        if network.shifted:
            scores = scores + table[:, -1:, inputs + 1 :]
        if network.limit is not None:
            scores = network.limit * scores.sigmoid()
        return scores.transpose(1, 2)


_HOOKS: Mapping[type[EncodingEntry], Callable[..., Hook]] = {
    AddedRows: _RowsAdded,
    PairRotations: _PairsRotated,
    ScoresByPair: _BiasAdded,
    DistanceRows: _ProductsAdded,
}
"""The hook of each kind of entry."""


def _normalized(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


def _drawn(name: str, rows: int, columns: int, std: float, seed: int) -> Tensor:
    """Draw normal values that depend only on the parameter's name and the seed: (rows, columns)."""
    words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], np.uint32)
    generator = np.random.default_rng([seed, *words.tolist()])
    return torch.from_numpy((generator.standard_normal((rows, columns)) * std).astype(np.float32))


def _first_values(learnable: Learnable, seed: int) -> Tensor:
    if learnable.values is None:
        return _drawn(learnable.name, learnable.rows, learnable.columns, learnable.std, seed)
    values = np.log(learnable.values) if learnable.logarithms else learnable.values
    return torch.from_numpy(np.asarray(values, np.float32))
