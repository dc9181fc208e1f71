"""What makes an engine run a model with another rope than its file has.

vLLM and sglang set keys of the config that they have loaded. transformers 5 has folded what the
file says into ``rope_parameters`` by then, so that is the key to set, and it is replaced whole:

- vLLM: ``--hf-overrides`` and ``--max-model-len``; ``--rope-scaling`` is no more
  (https://docs.vllm.ai/en/stable/features/context_extension/; ``config.update(hf_overrides_kw)``
  in vllm/transformers_utils/config.py);
- sglang: ``--json-model-override-args`` and ``--context-length`` (python/sglang/srt/server_args.py;
  ``get_rope_config`` in srt/utils/hf_transformers takes the base from ``rope_parameters``);
- llama.cpp: ``--rope-scaling``, ``--rope-scale``, ``--yarn-orig-ctx``, ``--rope-freq-base`` and
  ``--ctx-size`` (common/arg.cpp). They take the place of the file's own values but for its
  tensor of divisors, which Llama 3's rule is in (src/llama-context.cpp).

Where posenc knows how an engine reads a config, it must read the same frequencies there; else no
flags are given, and why.
"""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtime_rules import UnknownReading
from posenc_cli.configs.keys import ORIGINAL
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

    from posenc_cli.configs.resolved import Layers

ENGINES = ("vllm", "sglang", "llama.cpp")
_JSON_FLAGS = {
    "vllm": ("--hf-overrides", "--max-model-len"),
    "sglang": ("--json-model-override-args", "--context-length"),
}
_PLAIN = ("rope", "mrope")


class EngineFlags(Record):
    """The flags for an engine, None where there are none, and a remark: why, or what is open."""

    engine: str
    flags: str | None
    remark: str | None = None


class Wanted(Record):
    """A rope that an engine is to run: the layers as they are, and as they are to be.

    ``config`` is the config with it, as an engine has it once ``overrides`` are set, and ``given``
    the config as it is; all are None where there is no config but a GGUF file.
    """

    before: Layers
    after: Layers
    length: int
    config: Mapping[str, Any] | None
    overrides: Mapping[str, Any] | None
    given: Mapping[str, Any] | None = None

    def flags(self) -> tuple[EngineFlags, ...]:
        """The flags for each engine."""
        return tuple(self._of(engine) for engine in ENGINES)

    def _of(self, engine: str) -> EngineFlags:
        try:
            remark = self._remark(engine)
            words = self._llama_cpp() if engine == "llama.cpp" else self._json(engine)
            return EngineFlags(engine, " ".join(words), remark)
        except PosencError as error:
            return EngineFlags(engine, None, error.message.removeprefix(f"--as {engine}: "))

    def _remark(self, engine: str) -> str | None:
        """What is open of how an engine reads it.

        Raises: InvalidInput where it is known that it does so otherwise.
        """
        config, wanted = self.config, self.after
        if config is None:
            config, wanted = self.given, self.before
        if config is None:
            return None
        if engine == "sglang" and self.after.scheme == "rope-dynamic":
            raise InvalidInput("sglang scales once, for max_position_embeddings · factor")
        try:
            read = resolve(config, runtime=engine)
        except UnknownReading as error:
            return f"not checked: {error.message.removeprefix(f'--as {engine}: ')}"
        if _same(read.layer(wanted.layer_type), wanted, self.length):
            return None
        if engine == "llama.cpp" and self._kept():
            return (
                "its converter does not write this: convert the model as it is, and set the flags"
            )
        found = [text for text in read.warnings if text.startswith(engine)]
        raise InvalidInput(found[0] if found else f"{engine} reads it otherwise")

    def _kept(self) -> bool:
        """Whether llama.cpp reads the layers as they are, so that its flags are all that is set."""
        if self.given is None:
            return False
        read = resolve(self.given, runtime="llama.cpp").layer(self.before.layer_type)
        return _same(read, self.before, self.length)

    def _json(self, engine: str) -> Iterator[str]:
        if self.overrides is None:
            raise InvalidInput(
                "a GGUF file has no config.json"
                if self.given is None
                else f"{engine} cannot override this rope: edit config.json"
            )
        setting, length = _JSON_FLAGS[engine]
        yield f"{setting} {shlex.quote(json.dumps(self.overrides))}"
        yield f"{length} {self.length}"

    def _llama_cpp(self) -> Iterator[str]:
        """The flags of llama.cpp.

        Raises: InvalidInput where it has none for this rule.
        """
        before, values = self.before, self.after.values()
        if before.scheme in ("rope-llama3", "rope-longrope"):
            raise InvalidInput(
                "flags would scale what the file's tensor of divisors scales: convert the "
                "model again from its config"
            )
        yield from self._rule(values)
        if values.get("base") != before.values().get("base"):
            yield f"--rope-freq-base {_number(values['base'])}"
        yield f"--ctx-size {self.length}"

    def _rule(self, values: Mapping[str, Any]) -> Iterator[str]:
        match self.after.scheme:
            case "rope" | "mrope":
                if self.before.scheme not in _PLAIN:
                    yield "--rope-scaling none"
            case "rope-linear":
                yield f"--rope-scaling linear --rope-scale {_number(values['factor'])}"
            case "rope-yarn":
                self._check_yarn(values)
                yield f"--rope-scaling yarn --rope-scale {_number(values['factor'])}"
                yield f"--yarn-orig-ctx {values[ORIGINAL]}"
                for key, usual in (("beta_fast", 32.0), ("beta_slow", 1.0)):
                    if values.get(key, usual) != usual:
                        yield f"--yarn-{key.replace('_', '-')} {_number(values[key])}"
            case "rope-dynamic":
                raise InvalidInput("llama.cpp has no base that grows with the sequence")
            case "rope-llama3":
                raise InvalidInput(
                    "llama.cpp takes this rule from the tensor rope_freqs, which its converter "
                    "writes: convert the model again with this config"
                )
            case _:
                raise InvalidInput("llama.cpp has no flag for this rule")

    def _check_yarn(self, values: Mapping[str, Any]) -> None:
        """Refuse what llama.cpp's YaRN, which truncates and has an amplitude of its own, has not.

        Raises: InvalidInput.
        """
        if values.get("truncate") is False:
            raise InvalidInput("llama.cpp truncates YaRN's ramp, whatever truncate says")
        if {"attention_factor", "mscale", "mscale_all_dim"} & values.keys():
            raise InvalidInput("llama.cpp multiplies by 1 + 0.1 ln(factor), whatever is said")


def _same(read: Layers, planned: Layers, length: int) -> bool:
    """Whether two readings rotate pairs alike at a length."""
    return exact_rotation(read, length) == exact_rotation(planned, length)


def _number(value: float) -> str:
    """A number as short as it reads back.

    >>> _number(4.0), _number(40889.9)
    ('4', '40889.9')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class ExactRotation(Record):
    """The frequencies of all pairs, unrotated ones too, and the factor of cosines and sines."""

    frequencies: tuple[Decimal, ...]
    scale: Any


def exact_rotation(layers: Layers, length: int) -> ExactRotation:
    """The rotation of layers of a rotary scheme at a length of sequence; kept for the next call."""
    values = sorted(layers.values().items())
    return _rotation(layers.scheme, tuple(values), length)


@lru_cache(maxsize=64)
def _rotation(scheme: str, values: tuple[tuple[str, Any], ...], length: int) -> ExactRotation:
    bound = catalogue.find(scheme).bind(dict(values), seq_len=length)
    waves = bound.content.waves
    assert waves is not None
    return ExactRotation(tuple(waves.frequencies(exact)), waves.scale)
