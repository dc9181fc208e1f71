"""The keys of a config, checked and recorded as they are read."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.families import ANY_NAME
from posenc_cli.configs.resolved import Sourced, json_text
from posenc_cli.errors import InvalidInput, abbreviated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import UnionType

    from posenc_cli.configs.families import Rotary
    from posenc_cli.configs.resolved import Notes

LARGEST_COUNT = 1 << 53
LONGEST_NAME = 64
_ROPE_LIKE = re.compile(
    r"rope|rotary|theta|yarn|mscale|partial|alibi|_freq_factor|(short|long)_factor"
    r"|original_max_pos|max_sequence_length|attention_factor|llama_4_scaling|dual_chunk|dynamic_ntk|use_logn"
)
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "embed_dim", "depth")
_LAYER_LIKE = re.compile(
    r"^hybrid_(?!override_pattern)|^swa_(?!num_|v_head)"
    r"|^layer_(?!norm|drop|scale|id|num|count|init|act|bias|dim|size|wise|decay)"
    r"|(?:window|attention|attn|layers?|block|rope)_patterns?$"
    r"|^attn_type_list$|^_?block_types$|^attention_types$"
)
_WINDOW_LIKE = re.compile(r"window(?!.*_patterns?$)")
"""Keys that say which layers are of which kind, or what sliding layers have of their own."""


def tells_layers(key: str) -> bool:
    """Whether a key says which layers are of which kind.

    >>> tells_layers("hybrid_layer_pattern"), tells_layers("layer_norm_eps")
    (True, False)
    """
    return bool(_LAYER_LIKE.search(key))


def tells_window(key: str) -> bool:
    """Whether a key says how many positions some layers see, or which ones.

    >>> tells_window("sliding_window"), tells_window("sliding_window_pattern")
    (True, False)
    """
    return bool(_WINDOW_LIKE.search(key))


def is_model(key: str, section: object) -> bool:
    """Whether a section is a model of its own, as an encoder of images is, and has its sizes."""
    if not (key.endswith("_config") and isinstance(section, Mapping)):
        return False
    return any(size in section for size in _SIZES)


def printable(name: str) -> str:
    r"""A name that a file gives, escaped and shortened where a message could not show it.

    >>> printable("rope_theta"), printable("a\x1b[2J")
    ('rope_theta', "'a\\x1b[2J'")
    """
    if name.isprintable() and name.isascii() and len(name) <= LONGEST_NAME:
        return name
    return abbreviated(name.encode("ascii", "backslashreplace").decode())


def broken_bound(number: float, above: float | None, minimum: float | None) -> str | None:
    """The rule that a number breaks: to be finite, and at least ``minimum``, else ``above``."""
    if not math.isfinite(number):
        return "must be a finite number"
    if minimum is not None:
        return f"must be at least {minimum:g}" if number < minimum else None
    return f"must be above {above:g}" if above is not None and number <= above else None


OFF = ("alibi", "use_alibi", "use_dynamic_ntk", "use_logn_attn", "use_mem_rope", "rotary_value")
"""Keys of which false says nothing."""


class Keys:
    """A JSON object whose keys are read by type; None stands for one that is absent or null."""

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
        """The path of a key from the top of the file, as messages can show it."""
        return f"{self.prefix}{printable(key)}"

    def invalid(self, key: str, rule: str) -> InvalidInput:
        """The error for the value of a key that breaks a rule."""
        value = json_text(self.values.get(key))
        return InvalidInput(f"{self.name}: {self.path(key)} {value}: {rule}")

    def has(self, key: str) -> bool:
        """Whether the key is there, be it null; asking is no reading."""
        return key in self.values

    def get(self, key: str) -> Sourced | None:
        """Whatever a key holds."""
        if key not in self.values:
            return None
        self.read.add(self.path(key))
        value = self.values[key]
        return None if value is None else Sourced(value, self.path(key))

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """A finite number, as a float.

        Raises: InvalidInput for anything else, or one that is not above a bound.
        """
        stated = self.get(key)
        if stated is None:
            return None
        value = stated.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.invalid(key, "must be a number")
        number = float(value) if abs(value) <= sys.float_info.max else math.inf
        if rule := broken_bound(number, above, minimum):
            raise self.invalid(key, rule)
        return Sourced(number, stated.source)

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """A whole number, which may be written as 4096.0.

        Raises: InvalidInput for anything else, or one below the minimum.
        """
        stated = self.get(key)
        if stated is None:
            return None
        value = stated.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.invalid(key, "must be a whole number")
        if not minimum <= value <= LARGEST_COUNT:
            raise self.invalid(key, f"must be from {minimum} to 2^53")
        return Sourced(value, stated.source)

    def flag(self, key: str) -> Sourced | None:
        """True or false.

        Raises: InvalidInput for anything else.
        """
        return self._of_kind(key, bool, "must be true or false")

    def text(self, key: str) -> Sourced | None:
        """A text.

        Raises: InvalidInput for anything else.
        """
        return self._of_kind(key, str, "must be a text")

    def numbers(self, key: str) -> Sourced | None:
        """A list of numbers above 0, as a tuple of floats.

        Raises: InvalidInput for anything else.
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
        """A list of whole numbers from 0 on, as a tuple.

        Raises: InvalidInput for anything else.
        """
        return self.listed(
            key,
            "must be a list of whole numbers",
            lambda item: type(item) is int and 0 <= item <= LARGEST_COUNT,
        )

    def texts(self, key: str) -> Sourced | None:
        """A list of texts, as a tuple.

        Raises: InvalidInput for anything else.
        """
        return self.listed(key, "must be a list of texts", lambda item: isinstance(item, str))

    def listed(self, key: str, rule: str, fits: Callable[[Any], bool]) -> Sourced | None:
        """A list of items that fit, as a tuple.

        Raises: InvalidInput, by ``rule``, for anything else.
        """
        listed = self._of_kind(key, list | tuple, rule)
        if listed is None:
            return None
        if not all(map(fits, listed.value)):
            raise self.invalid(key, rule)
        return Sourced(tuple(listed.value), listed.source)

    def section(self, key: str) -> Keys | None:
        """A JSON object within this one.

        Raises: InvalidInput for anything else.
        """
        stated = self._of_kind(key, Mapping, "must be an object")
        if stated is None:
            return None
        return Keys(stated.value, name=self.name, prefix=f"{stated.source}.", read=self.read)

    def _of_kind(self, key: str, kind: type | UnionType, rule: str) -> Sourced | None:
        """A value of some types.

        Raises: InvalidInput, by ``rule``, for one of another.
        """
        stated = self.get(key)
        if stated is not None and not isinstance(stated.value, kind):
            raise self.invalid(key, rule)
        return stated

    def unread(self, *, skipped: Sequence[str] = (), whole: bool = False) -> Iterator[str]:
        """The paths of rope-like keys that nothing read, but for the objects ``skipped``.

        Of a ``whole`` object all keys are meant, as of a rope object that was read.
        """
        for key, value in self.values.items():
            path = self.path(key)
            off = value is False and key in OFF and not whole
            if value is None or key in skipped or off:
                continue
            is_read = path in self.read
            meant = whole or _ROPE_LIKE.search(key) or (value and tells_layers(key))
            meant = meant or tells_window(key)
            if not is_read and not whole and is_model(key, value):
                continue
            if not is_read and meant:
                yield path
            elif isinstance(value, Mapping):
                below = Keys(value, name=self.name, prefix=f"{path}.", read=self.read)
                yield from below.unread(whole=is_read and bool(whole or _ROPE_LIKE.search(path)))


def first(*values: Sourced | None) -> Sourced | None:
    """The first value there is.

    >>> first(None, Sourced(1, "here")).source
    'here'
    """
    return next((value for value in values if value is not None), None)


class FamilyReader:
    """Reads a config whose model type gives what the config leaves out."""

    def __init__(self, keys: Keys, model_type: str, notes: Notes) -> None:
        self.keys = keys
        self.model_type = model_type
        self.notes = notes
        self.default_source = f"default of {model_type}"

    def error(self, message: str, *, hint: str | None = None) -> InvalidInput:
        """The error for what a config says or lacks."""
        return InvalidInput(f"{self.keys.name}: {message}", hint=hint)

    def default(self, value: Any) -> Sourced:
        """A value of the model type's."""
        return Sourced(value, self.default_source)

    def fixed(self, **values: Any) -> dict[str, Sourced]:
        """Parameters that no key holds."""
        return {name: self.default(value) for name, value in values.items()}


def quotient(whole: Sourced, parts: Sourced) -> Sourced:
    """A whole number divided by another.

    >>> quotient(Sourced(64, "hidden_size"), Sourced(4, "heads"))
    Sourced(value=16, source='derived: hidden_size / heads')
    """
    return Sourced(whole.value // parts.value, f"derived: {whole.source} / {parts.source}")


CONTEXT = "max_position_embeddings"
ORIGINAL = "original_max_position_embeddings"
SHARE = "partial_rotary_factor"


class FamilyKeys(FamilyReader):
    """What reads of a rotary config share: its keys, its family, and the notes they leave.

    With ``by_own_class`` a config means what the class of transformers makes of it, and older names
    of rope types are refused where that class does not know them.
    """

    def __init__(
        self, text: Keys, family: Rotary, notes: Notes, *, by_own_class: bool = False
    ) -> None:
        super().__init__(text, family.owner or family.model_type, notes)
        self.by_own_class = by_own_class
        self.text = text
        self.family = family

    def names(self, key: str) -> tuple[str, ...]:
        """What the family calls a key at the top of the config, empty where it has it nowhere."""
        name = self.family.keys.get(key, key)
        others = ANY_NAME.get(key, ()) if self.family.any_names else ()
        return (*([] if name is None else [name]), *others)

    def number(self, key: str) -> Sourced | None:
        """A number at the top of the config, by whatever name."""
        return first(*(self.text.number(name) for name in self.names(key)))

    def count(self, key: str) -> Sourced | None:
        """A whole number of the config by whatever name, or the model type's.

        Raises: InvalidInput where it is none.
        """
        names: tuple[str, ...] = (self.family.aliases.get(key, key), key)
        if self.family.any_names:
            names += ANY_NAME.get(key, ())
        count = first(*(self.text.count(name) for name in names))
        if count is None and key in self.family.defaults:
            count = self.default(self.family.defaults[key])
        return count

    def needed_count(self, key: str) -> Sourced:
        """A whole number that must be there.

        Raises: InvalidInput.
        """
        count = self.count(key)
        if count is None:
            raise self.error(f"{self.text.path(key)} is missing")
        return count

    def size(self, key: str) -> Sourced | None:
        """A size of the config, or the model type's, which is noted."""
        size = self.count(key)
        return None if size is None else self.note_size(key, size)

    def note_size(self, key: str, size: Sourced, *, default: bool = True) -> Sourced:
        """A size; where it is the model type's, that is noted, unless another name says so too.

        Without ``default`` nothing is noted but what other names say, which has no effect.
        """
        named = {name: self.text.values.get(name) for name in ANY_NAME.get(key, ())}
        stated = {name: value for name, value in named.items() if value is not None}
        if size.source != self.default_source or size.value in stated.values():
            return size
        if default:
            self.notes.size(self.text.path(key), size)
        for name, value in stated.items():
            self.notes.warnings.append(
                f"{self.text.path(name)} {json_text(value)} has no effect: transformers' "
                f"{self.family.model_type} reads {self.text.path(key)}"
            )
        return size
