"""Read the keys of a config: check their types, and record which keys were read."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.families import ANY_NAME, Rotary
from posenc_cli.configs.resolved import Notes, Sourced, json_text
from posenc_cli.errors import InvalidInput, abbreviated

if TYPE_CHECKING:
    from types import UnionType


LARGEST_COUNT = 1 << 53
LONGEST_NAME = 64
_ROPE_LIKE = (
    r"rope|rotary|theta|yarn|mscale|partial|alibi|_freq_factor|(short|long)_factor"
    r"|original_max_pos|max_sequence_length|attention_factor|llama_4_scaling|dual_chunk|dynamic_ntk|use_logn"
    r"|initial_context_length|use_nope|use_long_context"
)
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "embed_dim", "depth")
FULL_LAYERS = ("full_attention_interval", "full_attn_idxs", "global_attn_every_n_layers")
"""Keys that state which layers have full attention, by a period or a list."""
_LAYER_LIKE = (
    r"^hybrid_(?!override_pattern)|^swa_(?!num_|v_head)"
    r"|^layer_(?!norm|drop|scale|id|num|count|init|act|bias|dim|size|wise|decay)"
    r"|(?:window|attention|attn|layers?|block|rope)_patterns?$"
    r"|^attn_type_list$|^_?block_types$|^attention_types$"
    rf"|^({'|'.join(FULL_LAYERS)})$"
)
"""Keys that state the types of layers, or a setting of sliding layers alone."""
_WINDOW_LIKE = r"window(?!.*_patterns?$)"


def states_layer_types(key: str) -> bool:
    """Return whether a key states the types of layers.

    >>> states_layer_types("hybrid_layer_pattern"), states_layer_types("layer_norm_eps")
    (True, False)
    """
    return bool(re.search(_LAYER_LIKE, key))


def states_window(key: str) -> bool:
    """Return whether a key states how many positions some layers attend to, or which layers.

    >>> states_window("sliding_window"), states_window("sliding_window_pattern")
    (True, False)
    """
    return bool(re.search(_WINDOW_LIKE, key))


def _is_model(key: str, section: object) -> bool:
    """Return whether a section is a model with sizes, such as an image encoder."""
    if not (key.endswith("_config") and isinstance(section, Mapping)):
        return False
    return any(size in section for size in _SIZES)


def printable(name: str) -> str:
    r"""Return a name from a file, escaped or shortened if a message could not show it.

    >>> printable("rope_theta"), printable("a\x1b[2J")
    ('rope_theta', "'a\\x1b[2J'")
    """
    if name.isprintable() and name.isascii() and len(name) <= LONGEST_NAME:
        return name
    return abbreviated(name.encode("ascii", "backslashreplace").decode())


def broken_bound(number: float, above: float | None, minimum: float | None) -> str | None:
    """Return the rule that a number breaks: finite, and at least ``minimum`` or above ``above``."""
    if not math.isfinite(number):
        return "must be a finite number"
    if minimum is not None:
        return f"must be at least {minimum:g}" if number < minimum else None
    return f"must be above {above:g}" if above is not None and number <= above else None


_EMPTY_IF_FALSE = (
    "alibi",
    "use_alibi",
    "use_dynamic_ntk",
    "use_logn_attn",
    "use_mem_rope",
    "use_long_context",
    "rotary_value",
)
"""Keys that say nothing if they are false."""


class Keys:
    """A JSON object whose keys are read by type; None stands for an absent key and for null."""

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        name: str,
        prefix: str = "",
        read: set[str] | None = None,
    ) -> None:
        self.values = values
        self.name = name
        self.prefix = prefix
        self.read = set() if read is None else read

    def path(self, key: str) -> str:
        """Return the path of a key from the top of the file, safe to show in messages."""
        return f"{self.prefix}{printable(key)}"

    def invalid(self, key: str, rule: str) -> InvalidInput:
        """Return the error for a key whose value breaks a rule."""
        value = json_text(self.values.get(key))
        return InvalidInput(f"{self.name}: {self.path(key)} {value}: {rule}")

    def has(self, key: str) -> bool:
        """Return whether the key exists, even as null; the key is not recorded as read."""
        return key in self.values

    def get(self, key: str) -> Sourced | None:
        """Return the value of a key, of any type."""
        if key not in self.values:
            return None
        self.read.add(self.path(key))
        value = self.values[key]
        return None if value is None else Sourced(value, self.path(key))

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """Return a finite number as a float.

        Raises: InvalidInput for any other value, or a number outside the bounds.
        """
        stated = self._value_of_type(key, int | float, "must be a number")
        if stated is None:
            return None
        number = float(stated.value) if abs(stated.value) <= sys.float_info.max else math.inf
        if rule := broken_bound(number, above, minimum):
            raise self.invalid(key, rule)
        return Sourced(number, stated.source)

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """Return an integer, which may be written as 4096.0.

        Raises: InvalidInput for any other value, or an integer outside the bounds.
        """
        stated = self._value_of_type(key, int | float, "must be a whole number")
        if stated is None:
            return None
        if stated.value % 1:
            raise self.invalid(key, "must be a whole number")
        if not minimum <= stated.value <= LARGEST_COUNT:
            raise self.invalid(key, f"must be from {minimum} to 2^53")
        return Sourced(int(stated.value), stated.source)

    def flag(self, key: str) -> Sourced | None:
        """Return true or false.

        Raises: InvalidInput for any other value.
        """
        return self._value_of_type(key, bool, "must be true or false")

    def text(self, key: str) -> Sourced | None:
        """Return a text.

        Raises: InvalidInput for any other value.
        """
        return self._value_of_type(key, str, "must be a string")

    def numbers(self, key: str) -> Sourced | None:
        """Return a list of numbers above 0 as a tuple of floats.

        Raises: InvalidInput for any other value.
        """
        rule = "must be a list of numbers above 0"
        listed = self.listed(
            key,
            rule,
            lambda item: type(item) in (int, float) and 0 < item <= sys.float_info.max,
        )
        if listed is not None and not listed.value:
            raise self.invalid(key, rule)
        return listed and Sourced(tuple(map(float, listed.value)), listed.source)

    def counts(self, key: str) -> Sourced | None:
        """Return a list of integers from 0 on as a tuple.

        Raises: InvalidInput for any other value.
        """
        return self.listed(
            key,
            "must be a list of whole numbers",
            lambda item: type(item) is int and 0 <= item <= LARGEST_COUNT,
        )

    def texts(self, key: str) -> Sourced | None:
        """Return a list of texts as a tuple.

        Raises: InvalidInput for any other value.
        """
        return self.listed(key, "must be a list of texts", lambda item: isinstance(item, str))

    def listed(self, key: str, rule: str, fits: Callable[[Any], bool]) -> Sourced | None:
        """Return a list whose items all fit, as a tuple.

        Raises: InvalidInput with ``rule`` for any other value.
        """
        listed = self._value_of_type(key, list | tuple, rule)
        if listed is not None and not all(map(fits, listed.value)):
            raise self.invalid(key, rule)
        return listed and Sourced(tuple(listed.value), listed.source)

    def section(self, key: str) -> Keys | None:
        """Return a JSON object inside this one.

        Raises: InvalidInput for any other value.
        """
        stated = self._value_of_type(key, Mapping, "must be an object")
        return (
            None
            if stated is None
            else Keys(stated.value, name=self.name, prefix=f"{stated.source}.", read=self.read)
        )

    def _value_of_type(self, key: str, kind: type | UnionType, rule: str) -> Sourced | None:
        """Return a value of a type; true and false are no numbers.

        Raises: InvalidInput with ``rule`` for a value of another type.
        """
        stated = self.get(key)
        if stated is not None and (
            not isinstance(stated.value, kind) or isinstance(stated.value, bool) != (kind is bool)
        ):
            raise self.invalid(key, rule)
        return stated

    def unread(self, *, skipped: Sequence[str] = (), whole: bool = False) -> Iterator[str]:
        """Yield the paths of rope-like keys that nothing read, without the objects ``skipped``.

        In a ``whole`` object every key counts, as in a rope object that was read.
        """
        for key, value in self.values.items():
            path = self.path(key)
            off = value is False and key in _EMPTY_IF_FALSE and not whole
            if value is None or key in skipped or off:
                continue
            is_read = path in self.read
            meant = whole or re.search(_ROPE_LIKE, key) or (value and states_layer_types(key))
            meant = meant or states_window(key)
            if not is_read and not whole and _is_model(key, value):
                continue
            if not is_read and meant:
                yield path
            elif isinstance(value, Mapping):
                below = Keys(value, name=self.name, prefix=f"{path}.", read=self.read)
                yield from below.unread(
                    whole=is_read and bool(whole or re.search(_ROPE_LIKE, path))
                )


def first(*values: Sourced | None) -> Sourced | None:
    """Return the first value that is not None.

    >>> first(None, Sourced(1, "here")).source
    'here'
    """
    return next((value for value in values if value is not None), None)


class FamilyReader:
    """Reader of a config, with the defaults of its model type."""

    def __init__(self, keys: Keys, model_type: str, notes: Notes) -> None:
        self.keys = keys
        self.model_type = model_type
        self.notes = notes
        self.default_source = f"default of {model_type}"

    def error(self, message: str, *, hint: str | None = None) -> InvalidInput:
        """Return the error for a wrong or missing value."""
        return InvalidInput(f"{self.keys.name}: {message}", hint=hint)

    def default(self, value: Any) -> Sourced:
        """Return a default value of the model type."""
        return Sourced(value, self.default_source)

    def default_size(self, key: str, value: int) -> Sourced:
        """Return a default size of the model type, and note it."""
        size = self.default(value)
        self.notes.size(self.keys.path(key), size)
        return size

    def fixed(self, **values: Any) -> dict[str, Sourced]:
        """Return parameters that no key states."""
        return {name: self.default(value) for name, value in values.items()}


def quotient(whole: Sourced, parts: Sourced) -> Sourced:
    """Return an integer divided by another, rounded down.

    >>> quotient(Sourced(64, "hidden_size"), Sourced(4, "heads"))
    Sourced(value=16, source='derived: hidden_size / heads')
    """
    return Sourced(whole.value // parts.value, f"derived: {whole.source} / {parts.source}")


CONTEXT = "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"
SHARE = "partial_rotary_factor"


class FamilyKeys(FamilyReader):
    """The keys of a rotary config, its family, and the notes.

    With ``by_own_class``, the config is read exactly as the model type's class in transformers
    reads it. Older names of rope types are then errors if that class does not know them.
    """

    def __init__(
        self, text: Keys, family: Rotary, notes: Notes, *, by_own_class: bool = False
    ) -> None:
        super().__init__(text, family.owner or family.model_type, notes)
        self.by_own_class = by_own_class
        self.text = text
        self.family = family

    def names(self, key: str) -> tuple[str, ...]:
        """Return the family's names of a key at the top of the config; empty if it has none."""
        name = self.family.keys.get(key, key)
        others = ANY_NAME.get(key, ()) if self.family.any_names else ()
        return (*([] if name is None else [name]), *others)

    def number(self, key: str) -> Sourced | None:
        """Return a number at the top of the config, under any of the family's names."""
        return first(*(self.text.number(name) for name in self.names(key)))

    def count(self, key: str) -> Sourced | None:
        """Return an integer, under any of the family's names, or the model type's default.

        Raises: InvalidInput for any other value.
        """
        others = ANY_NAME.get(key, ()) if self.family.any_names else ()
        names = (self.family.aliases.get(key, key), key, *others)
        count = first(*(self.text.count(name) for name in names))
        if count is None and key in self.family.defaults:
            return self.default(self.family.defaults[key])
        return count

    def needed_count(self, key: str) -> Sourced:
        """Return an integer that must be present or have a default.

        Raises: InvalidInput.
        """
        count = self.count(key)
        if count is None:
            raise self.error(f"{self.text.path(key)} is missing")
        return count

    def size(self, key: str) -> Sourced | None:
        """Return a size of the config or the model type's default, which is noted."""
        size = self.count(key)
        return None if size is None else self.note_size(key, size)

    def note_size(self, key: str, size: Sourced, *, default: bool = True) -> Sourced:
        """Return a size; note a default unless another name states the same size.

        Keys of other names are noted as without effect. Without ``default``, only these are noted.
        """
        named = {name: self.text.values.get(name) for name in ANY_NAME.get(key, ())}
        stated = {name: value for name, value in named.items() if value is not None}
        if size.source != self.default_source or size.value in stated.values():
            return size
        if default:
            self.notes.size(self.text.path(key), size)
        for name, value in stated.items():
            self.notes.ineffective(
                Sourced(value, self.text.path(name)),
                f"transformers' {self.family.model_type} reads {self.text.path(key)}",
            )
        return size
