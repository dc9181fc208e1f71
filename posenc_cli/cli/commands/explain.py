"""``posenc explain``: what a config says about positions, and the source of each value."""

from __future__ import annotations

import shlex
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.catalogue import find as find_scheme
from posenc_cli.cli.completers import model_names
from posenc_cli.cli.console import Console
from posenc_cli.cli.exits import report_error
from posenc_cli.cli.options import (
    Json,
    ModelNames,
    Setting,
    argument,
    named_as_settings,
    one_of,
    option,
    settings_of,
    settings_option,
    some_of,
)
from posenc_cli.configs import library
from posenc_cli.configs.conclusions import Conclusion, ConclusionCode, conclusions
from posenc_cli.configs.config import Layers, Resolved, Sourced, read_config, resolve_with
from posenc_cli.configs.resolved import ALL, BIAS_TABLES, TRANSFORMERS, grouped
from posenc_cli.errors import InvalidInput, PosencError, nearest, quoted_name
from posenc_cli.formulas.parameters import brief_text
from posenc_cli.positions import consecutive_ranges, range_texts
from posenc_cli.render.ticks import counted
from posenc_cli.render.typesetting import Answer
from posenc_cli.transaction import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.configs.library import Preset
    from posenc_cli.files.gguf import GGUFHeader


def explain(
    console: Console,
    configs: Annotated[
        list[str] | None,
        argument(
            metavar="CONFIG...",
            autocompletion=model_names,
            help="config.json, its folder, a GGUF file, a model, or - (stdin); or several",
        ),
    ] = None,
    *,
    models: ModelNames = None,
    runtime: Annotated[
        str,
        option(
            "--as",
            metavar="ENGINE",
            help="read the config as this engine does (vllm, llama.cpp, …); all compares the "
            "engines",
            show_default=True,
        ),
    ] = TRANSFORMERS,
    settings: Annotated[
        list[Setting] | None,
        settings_option("a parameter that replaces the config's value; repeatable"),
    ] = None,
    strict: Annotated[
        bool,
        option(
            "--strict",
            help=(
                "status 1 for doubtful configs: default values, unused or contradicted RoPE keys,"
                " or missing parts of the file"
            ),
        ),
    ] = False,
    fail_on: Annotated[
        Any,  # tuple[ConclusionCode, ...] | None, which Typer would split into words
        option(
            "--fail-on",
            metavar="CODES",
            help="status 1 if the summary has a line with one of CODES: "
            f"{'|'.join(ConclusionCode)}; comma-separated",
            parse=partial(some_of, known=[*ConclusionCode]),
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Explain a Hugging Face config, value by value.

    posenc shows each value and its source, which is a key of the config or a default. The source
    "rope_scaling" of factor is short for rope_scaling.factor.

    posenc reads a config as transformers 5 does. It warns about keys that transformers ignores, and
    about defaults that transformers uses. posenc reads a GGUF file as llama.cpp does. DEFAULT marks
    a key that the file lacks.

    The report starts with a summary. A ! marks doubtful values. The summary shows the trained and
    the extended length, factors on logits, layers without positions, and parts that posenc did not
    read. It also shows the layout of a sparse-attention indexer.

    Each line of the summary has a code for --fail-on. The code unread is for keys that nothing
    uses, and not-read for parts of the model that posenc cannot read. A line with the code context
    counts only if it is doubtful.

    Examples:
      posenc explain config.json
      posenc explain ~/models/llama --json
      posenc explain config.json --strict
      posenc explain model.gguf
      posenc explain config.json --fail-on context,no-positions
      posenc explain llama-3.1-8b
      posenc explain config.json --as all
    """
    configs = [*(configs or ()), *(models or ())]
    if not configs:
        raise InvalidInput("CONFIG is missing; name a config.json or a model")
    if as_json and len(configs) > 1:
        raise InvalidInput(f"--json takes one CONFIG, and {len(configs)} are given")
    judged = strict or fail_on is not None
    _check_runtime(runtime, judged=judged)
    given, status = settings_of(settings), 0
    texts: list[str] = []
    doubts: list[str] = []
    for config in configs:
        name = f"{quoted_name(config)}: " if len(configs) > 1 else ""
        try:
            preset, found = _config(config)
            if runtime == ALL:
                with named_as_settings(given):
                    texts += _of_all_engines(console, name, found, config, given, as_json=as_json)
                continue
            with named_as_settings(given):
                resolved = resolve_with(given, found, runtime=runtime, name=config)
            summary = tuple(conclusions(resolved, found))
        except PosencError as error:
            status = max(status, report_error(error, debug=console.debug))
            continue
        failed = [*_failed(name, resolved, summary, strict=strict, codes=fail_on or ())]
        doubts += failed
        following = _next(config, resolved, runtime, settings or ())
        if as_json:
            doubtful = [each.text for each in summary if each.doubtful]
            cause = "; ".join(failed or doubtful) or None
            answer = Answer(not failed, _verdict(resolved, len(doubtful)), cause, next=following)
            of = {"source": preset.source} if preset else {}
            console.json("explain", {**answer.fields(), **_fields(resolved, summary), **of})
        elif failed or not (judged and console.quiet):
            texts.append(_text(console, name, resolved, summary, following))
            if preset:
                source = f"The config of {preset.title} is from {preset.source}."
                texts[-1] += f"\n\n{console.typesetter.paragraph(source)}"
    if texts:
        console.result("\n\n".join(texts))
    console.warning(*doubts)
    return status or int(bool(doubts))


def _check_runtime(runtime: str, *, judged: bool) -> None:
    """Reject an unknown engine, and verdicts on the readings of all engines.

    Raises: InvalidInput.
    """
    if runtime == TRANSFORMERS:
        return
    from posenc_cli.configs.engines.runtimes import RUNTIMES

    if one_of("--as", runtime, [*RUNTIMES, ALL]) == ALL and judged:
        raise InvalidInput(
            f"--as {ALL}: --strict and --fail-on judge one reading",
            hint="name an engine, or leave --as out",
        )


def _of_all_engines(
    console: Console,
    name: str,
    config: Mapping[str, Any] | GGUFHeader,
    source: str,
    given: Mapping[str, Any],
    *,
    as_json: bool,
) -> Iterator[str]:
    """Yield a text on which engines differ; JSON is printed at once instead.

    Raises: InvalidInput.
    """
    from posenc_cli.comparison.engine_views import engine_views
    from posenc_cli.render.reports.engine_views import (
        engine_views_answer,
        engine_views_fields,
        engine_views_text,
    )

    result = engine_views(config, name=source, given=given)
    own = result.own
    title = f"{name}{own.noun} {own.model_type}"
    compare = f"posenc compare {shlex.quote(source)} --as"
    if as_json:
        answer = engine_views_answer(result, title, compare=compare).fields()
        own_fields = _fields(own, tuple(conclusions(own, config)))
        console.json("explain", {**answer, **own_fields, **engine_views_fields(result)})
        return
    yield engine_views_text(
        result,
        title,
        lambda layers: f"{_which_text(layers)}{_numbers_text(layers.layers)}",
        console.typesetter,
        compare=compare,
    )


def _failed(
    name: str,
    resolved: Resolved,
    summary: Sequence[Conclusion],
    *,
    strict: bool,
    codes: Sequence[ConclusionCode],
) -> Iterator[str]:
    """Yield the reasons why --strict and --fail-on fail a config."""
    if strict and (doubt := _doubts(resolved)):
        yield f"--strict: {name}{doubt}"
    for conclusion in summary:
        healthy = conclusion.code is ConclusionCode.CONTEXT and not conclusion.doubtful
        if conclusion.code in codes and not healthy:
            yield f"--fail-on {conclusion.code}: {name}{conclusion.text}"


def _doubts(resolved: Resolved) -> str:
    """Return the keys that leave doubt, by reason; empty if there are none."""
    doubts = {
        "not read": resolved.unread,
        "default used": resolved.defaulted,
        "contradicted": resolved.contradicted,
        "lacking": resolved.lacking,
    }
    return "; ".join(f"{doubt}: {', '.join(keys)}" for doubt, keys in doubts.items() if keys)


def _config(source: str) -> tuple[Preset | None, Mapping[str, Any] | GGUFHeader]:
    """Return the content of a file, or else the model of that name with its config.

    Raises: InvalidInput, Unavailable.
    """
    path = Path(source)
    if source != STANDARD_INPUT and not path.exists():
        if source in library.names():
            preset = library.find(source)
            return preset, preset.config
        if path.suffix.lower() not in (".json", ".gguf"):
            raise InvalidInput(
                f"{quoted_name(source)} is neither a file nor a model",
                hint=f"posenc schemes {source} describes the scheme"
                if source in BUILT_IN
                else nearest(source, library.names()) or "posenc models lists the names",
            )
    return None, read_config(source, flag=None)


def _next(config: str, resolved: Resolved, runtime: str, settings: Sequence[Setting]) -> str | None:
    """Return the next command, a check or a view of the encoding; None if there is no encoding."""
    of = "--model" if not Path(config).exists() and config in library.names() else "--config"
    first = next((layers for layers in resolved.layers if layers.scheme != "nope"), None)
    if first is None:
        return None
    several = len(resolved.layers) > 1
    chosen = f" --layer-type {first.layer_type}" if several and first.layer_type else ""
    engine = "" if runtime == TRANSFORMERS else f" --as {runtime}"
    slopes = first.scheme == "alibi" and not engine  # alibi-slopes has no --as
    command = {"rotary": "rope-check", "bias": "alibi-slopes" if slopes else ""}
    name = command.get(find_scheme(first.scheme).kind) or "heatmap"
    given = "".join(f" --set {shlex.quote(f'{each.name}={each.value}')}" for each in settings)
    impl = " --impl ./port.py:rotate" if name == "rope-check" else ""
    return f"posenc {name} {of} {shlex.quote(config)}{chosen}{engine}{given}{impl}"


def _fields(resolved: Resolved, summary: Sequence[Conclusion]) -> dict[str, Any]:
    return {
        "model_type": resolved.model_type,
        "summary": [conclusion.as_dict() for conclusion in summary],
        "layers": [
            {
                "layer_type": layers.layer_type,
                "layers": list(layers.layers),
                "scheme": layers.scheme,
                "params": {name: param.as_dict() for name, param in layers.params.items()},
                "derived": {name: value.as_dict() for name, value in layers.derived.items()},
            }
            for layers in resolved.layers
        ],
        "defaulted": list(resolved.defaulted),
        "unread": list(resolved.unread),
        "contradicted": list(resolved.contradicted),
        "warnings": list(resolved.warnings),
    }


def _text(
    console: Console,
    name: str,
    resolved: Resolved,
    summary: Sequence[Conclusion],
    following: str | None,
) -> str:
    """Return the resolved config as text, after its ``name`` if that is not empty."""
    unread = f"nothing read {', '.join(resolved.unread)}"
    twice = next((text for text in resolved.warnings if text.startswith(unread)), None)
    rest = [text for text in resolved.warnings if text not in (*resolved.headlines, twice)]
    first, last = (
        [console.typesetter.paragraph(f"Warning: {warning}", hanging=2) for warning in warnings]
        for warnings in (resolved.headlines, rest)
    )
    groups = grouped(resolved.layers, lambda one, other: one.same_encoding(other))
    tables = [_group_text(console, group) for group in groups]
    doubtful = [
        f"! {twice if twice and line.code is ConclusionCode.UNREAD else line.text}"
        for line in summary
        if line.doubtful
    ]
    told = [*doubtful, *(line.text for line in summary if not line.doubtful)]
    head = [console.typesetter.paragraph(f"{name}{_verdict(resolved, len(doubtful))}")]
    head += [console.typesetter.paragraph(text, indent=2, hanging=4) for text in told]
    if following is not None:
        head.append(console.command_text(f"next: {following}"))
    return "\n\n".join(["\n".join(head), *first, *tables, *last])


def _verdict(resolved: Resolved, doubts: int) -> str:
    """Return which encodings a model uses, and the number of doubtful lines."""
    schemes: dict[str, int] = {}
    for layers in resolved.layers:
        schemes[layers.scheme] = schemes.get(layers.scheme, 0) + len(layers.layers)
    texts = [
        f"{name} in {counted(count, 'layer')}" if count and len(schemes) > 1 else name
        for name, count in schemes.items()
    ]
    doubtful = f"; {counted(doubts, 'doubtful line')}" if doubts else ""
    return f"{resolved.noun} {resolved.model_type}: {', '.join(texts)}{doubtful}"


def _group_text(console: Console, group: Sequence[Layers]) -> str:
    """Return the text of layers with the same encoding: which layers, parameters and remarks."""
    titles = [f"{_which_text(kind)}: {kind.scheme}{_numbers_text(kind.layers)}" for kind in group]
    first = group[0]
    declared = find_scheme(first.scheme).parameters
    rows = [
        [
            name,
            brief_text(param.value, separator=declared[name].rules.separator),
            param.source.removesuffix(f".{name}").removeprefix("derived: "),
        ]
        for name, param in first.params.items()
    ]
    paragraph = console.typesetter.paragraph
    head = [paragraph(title, hanging=2) for title in titles]
    table = [parameters_text(console, rows)] if rows else []
    remarks = [paragraph(remark, indent=2, hanging=4) for remark in _remarks(first.derived)]
    return "\n".join([*head, *table, *remarks])


def parameters_text(console: Console, rows: Sequence[Sequence[str]]) -> str:
    """Return names, values and sources as a table, or line by line if the table is too wide.

    A word is cut only if it is wider than the terminal.
    """
    spelled = console.typesetter.spelled
    widest = [max(len(spelled(cell)) for cell in column) for column in zip(*rows, strict=True)]
    if sum(widest) + 3 * (len(widest) - 1) <= console.width:
        return console.typesetter.table(["parameter", "value", "source"], rows)
    lines = []
    for name, value, source in rows:
        longest = max(map(len, spelled(source).split()), default=0)
        indent = 4 if longest + 4 <= console.width else 0
        lines.append(console.typesetter.paragraph(f"{name}: {value}", hanging=2))
        lines.append(console.typesetter.paragraph(source, indent=indent))
    return "\n".join(lines)


def _which_text(layers: Layers) -> str:
    """Return a name for layers.

    A config need not say how many layers there are, or which have attention.
    """
    if layers.layer_type is not None:
        return layers.layer_type
    if layers.scheme == "timestep":
        return "timesteps"
    if layers.layers:
        return "all layers"
    once = layers.scheme != "nope" and find_scheme(layers.scheme).kind == "absolute"
    return "added once, at the input" if once else "every layer with attention"


_REMARKS = {
    "softmax_multiplier": "logits × {value} by the softmax scale ({source})",
    "attention_scale": "scores × {value} ({source})",
    "softcap": "scores capped at {value} · tanh(s / {value}) ({source})",
    "temperature_scale": (
        "scores × (1 + {value} · ln(1 + ⌊{place} / {length}⌋)), m the position of the query "
        "({source})"
    ),
    BIAS_TABLES: "bias tables: {value} ({source})",
    "scaling_type": "scaling type: {value} ({source})",
    "scaling_factor": "scaling factor: {value} ({source})",
    "divisors": "frequencies are divided by {value}",
    "permuted": (
        "the converter permutes the rows of q and k: dimensions 2i and 2i + 1 were i and i + n/2 "
        "in the checkpoint ({source})"
    ),
    "window": "window: {value} positions ({source})",
    "window_of_all": "window of all layers: {value} positions ({source})",
    "first_position": "the first token has position {value}",
    "context": "context: {value} positions ({source})",
}
"""A sentence about each derived value, in this order."""


def _remarks(derived: Mapping[str, Sourced]) -> Iterator[str]:
    """Yield one sentence for each derived value."""
    values = {name: brief_text(value.value) for name, value in derived.items()}
    if "rotated" in values:
        yield _rotary_dim_text(derived)
    if "attention_factor" in values:
        whole = "beside_slice" not in derived and values.get("rotated") == values.get("head_dim")
        yield (
            f"attention factor: {values['attention_factor']}; logits"
            f"{'' if whole else ' of the rotated dimensions'} × {values['logit_multiplier']} "
            f"({derived['attention_factor'].source})"
        )
    offset = derived.get("temperature_offset")
    place = "(m + 1)" if offset and offset.value else "m"
    length = values.get("temperature_length")
    for name in [name for name in _REMARKS if name in derived]:
        undivided = name == "divisors" and not derived[name].value
        sentence = "no tensor divides frequencies ({source})" if undivided else _REMARKS[name]
        source = derived[name].source
        yield sentence.format(value=values[name], source=source, place=place, length=length)


def _rotary_dim_text(derived: Mapping[str, Sourced]) -> str:
    """Return how many dimensions rotate; latent attention rotates a slice beside the others."""
    rotated, head = derived["rotated"].value, derived["head_dim"].value
    if "beside_slice" not in derived:
        return f"rotary dim: {rotated} of {head}"
    beside = derived["beside_slice"].value
    of = "" if beside is None else f" of {head + beside}"
    return f"rotary dim: {rotated}{of}, a slice of the head"


def _numbers_text(layers: Sequence[int]) -> str:
    """Return the count and numbers of layers as text.

    >>> _numbers_text(range(32)), _numbers_text((5, 11, 17)), _numbers_text((0, 1, 4))
    (' (32 layers: 0–31)', ' (3 layers: 5, 11, 17)', ' (3 layers: 0–1, 4)')
    """
    if not layers:
        return ""
    runs = consecutive_ranges(layers)
    even = len({after.start - before.start for before, after in pairwise(runs)}) == 1
    texts = range_texts(layers)
    text = ", ".join([*texts[:2], f"… {texts[-1]}"] if len(runs) > 3 and even else texts)
    return f" ({counted(len(layers), 'layer')}: {text})"
