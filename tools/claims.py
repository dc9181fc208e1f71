"""List the claims of docs/ledger.md, each with its source and the runs that test it."""

from collections.abc import Mapping, Sequence

from tools.ledger import (
    Alike,
    Claim,
    Ground,
    Lower,
    MoreRight,
    Right,
    Rise,
    RisesLess,
    Row,
    Run,
    Value,
)

_STRETCHES = ("none", "linear", "ntk", "yarn", "dynamic", "window", "clip", "log-n")
_TOLD = ("nope", "sinusoidal", "rope", "alibi", "t5")

RUNS = {
    "text": Run(("rope", "alibi", "t5", "sinusoidal", "nope", "learned"), "", _STRETCHES),
    "text-2": Run(("shaw", "kerple-log", "xpos", "sandwich")),
    "fire": Run(("fire",)),
    "rope-500": Run(("rope",), "--base 500", _STRETCHES[:4]),
    "rope-500000": Run(("rope",), "--base 500000", _STRETCHES[:4]),
    "p-rope": Run(("rope-proportional",), "--set partial=0.75"),
    "steps-3000": Run(("nope", "rope", "alibi"), "--steps 3000"),
    "randomized": Run(("sinusoidal", "rope", "alibi"), "--randomize 1024"),
    "first": Run(_TOLD, "--task first", ("none", "yarn", "window")),
    "first-500": Run(("rope",), "--base 500 --task first"),
    "copy": Run(_TOLD, "--task copy --steps 3000", ("none", "yarn", "window")),
    "copy-randomized": Run(("sinusoidal", "rope"), "--task copy --steps 3000 --randomize 512"),
    "sorting": Run(_TOLD, "--task sorting --steps 3000"),
}

_ROPE, _ALIBI, _T5 = Row("text", "rope"), Row("text", "alibi"), Row("text", "t5")
_SINUSOIDAL, _LEARNED = Row("text", "sinusoidal"), Row("text", "learned")
_NOPE_LONG, _ROPE_LONG = Row("steps-3000", "nope"), Row("steps-3000", "rope")


def _rope(stretch: str) -> Row:
    return Row("text", "rope", stretch)


def _more_right(task: str, one: str, others: Sequence[str], times: int) -> tuple[Ground, ...]:
    """Return whether an encoding gives more right answers than each of some others."""
    return tuple(MoreRight(Row(task, one), Row(task, other), times) for other in others)


def _head(command: str, times: int, bound: float, *, least: bool) -> Value:
    """Return the share of right answers of a fitted head at 1×, 2×, 4× or 8× the length."""
    path = ("results", 0, "lengths", (1, 2, 4, 8).index(times), "right")
    return Value(f"posenc heads {command}", f"right at {times}×", path, bound, least)


def _property(command: str, path: str, what: str, most: float) -> Value:
    """Return a number of a property that posenc inspect reports, which is at most so much."""
    name, *steps = path.split()
    whole: tuple[str | int, ...] = ("schemes", 0, "properties", f"name={name}", *steps)
    return Value(f"posenc inspect {command}", what, whole, most, least=False)


_PRESS = "Press et al. 2021, arXiv:2108.12409"
_PRESS_SETTING = "WikiText-103, 247M parameters, trained at 512 and 1024 tokens"
_CHEN = "Chen et al. 2023, arXiv:2306.15595"
_CHEN_SETTING = "LLaMA 7B to 65B, 2048 tokens, tested to 32768"
_PENG = "Peng et al. 2023, arXiv:2309.00071"
_KAZEMNEJAD = "Kazemnejad et al. 2023, arXiv:2305.19466"
_KAZEMNEJAD_SETTING = (
    "decoders of about 107M parameters, ten tasks, trained to length 20, tested to 40"
)
_NOT_THEIRS = f"{_KAZEMNEJAD_SETTING}; this task is not one of them"
_WITHOUT_LOWEST = (
    "RoPE without the lowest-frequency quarter of its pairs is as good at the trained length"
)
_HAN = "Han et al. 2023 (LM-Infinite), arXiv:2308.16137"
_BARBERO = "Barbero et al. 2024, arXiv:2410.06205"

_ROWS: Mapping[str, Sequence[tuple[str, str, str, tuple[Ground, ...]]]] = {
    "length": (
        (
            "Vaswani et al. 2017, arXiv:1706.03762, 3.5",
            "Sinusoids may extrapolate to sequences longer than in training",
            "a hypothesis, not measured",
            (Rise(_SINUSOIDAL, 2, holds=True),),
        ),
        (
            "Vaswani et al. 2017, arXiv:1706.03762, table 3 (E)",
            "Learned rows and sinusoids reach nearly the same loss at the trained length",
            "translation, WMT 2014 English to German",
            (Alike(_LEARNED, _SINUSOIDAL, 1),),
        ),
        (
            f"{_PRESS}, figure 1",
            "ALiBi works on sequences several times the trained length",
            _PRESS_SETTING,
            (Rise(_ALIBI, 2, holds=True), Rise(_ALIBI, 4, holds=True), Rise(_ALIBI, 8, holds=True)),
        ),
        (
            f"{_PRESS}, 2.2",
            "Sinusoids fail soon after the trained length",
            _PRESS_SETTING,
            (Rise(_SINUSOIDAL, 2, holds=False),),
        ),
        (
            f"{_PRESS}, 2.2",
            "RoPE extrapolates better than sinusoids",
            _PRESS_SETTING,
            (RisesLess(_ROPE, _SINUSOIDAL, 2),),
        ),
        (
            f"{_PRESS}, 2.2",
            "RoPE also fails after the trained length",
            _PRESS_SETTING,
            (Rise(_ROPE, 2, holds=False),),
        ),
        (
            f"{_PRESS}, 2.2",
            "T5's bias extrapolates better than RoPE and sinusoids",
            _PRESS_SETTING,
            (RisesLess(_T5, _ROPE, 2), RisesLess(_T5, _SINUSOIDAL, 2)),
        ),
        (
            f"{_PRESS}, tables 2 and 3",
            "ALiBi is at least as good as sinusoids at the trained length",
            _PRESS_SETTING,
            (Lower(_ALIBI, _SINUSOIDAL, 1),),
        ),
        (
            "Shaw et al. 2018, arXiv:1803.02155",
            "Relative rows are better than sinusoids at the trained length",
            "translation, WMT 2014, rows for keys and values; here only keys",
            (Lower(Row("text-2", "shaw"), _SINUSOIDAL, 1),),
        ),
        (
            "Haviv et al. 2022, arXiv:2203.16634",
            "Causal language models are nearly as good without positional encoding",
            "The Pile and WikiText-103, 125M to 1.3B parameters",
            (Alike(Row("text", "nope"), _SINUSOIDAL, 1),),
        ),
        (
            "Chi et al. 2022 (KERPLE), arXiv:2205.09921",
            "KERPLE-log works beyond the trained length, at least as well as ALiBi",
            "OpenWebText2, GitHub and ArXiv, trained at 512 tokens, tested to 16384",
            (
                Rise(Row("text-2", "kerple-log"), 8, holds=True),
                Lower(Row("text-2", "kerple-log"), _ALIBI, 8),
            ),
        ),
        (
            "Chi et al. 2023 (Sandwich), arXiv:2212.10356",
            "Sandwich works beyond the trained length",
            "OpenWebText2, GitHub and ArXiv, trained at 512 tokens",
            (Rise(Row("text-2", "sandwich"), 8, holds=True),),
        ),
        (
            "Chi et al. 2023 (Sandwich), arXiv:2212.10356",
            "ALiBi extrapolates like a window: keys outside the window do not matter",
            "trained at 512 tokens, window sizes measured by cumulative gradients",
            (Alike(Row("text", "alibi", "window"), _ALIBI, 8),),
        ),
        (
            "Sun et al. 2022 (xPos), arXiv:2212.10554",
            "xPos extrapolates better than RoPE",
            "The Pile, 1024 tokens, tested to 4096, blockwise attention",
            (RisesLess(Row("text-2", "xpos"), _ROPE, 2),),
        ),
        (
            "Li et al. 2023 (FIRE), arXiv:2310.04418",
            "FIRE works beyond the trained length, at least as well as ALiBi",
            "C4, trained at 2048 tokens, tested to 8192",
            (Rise(Row("fire", "fire"), 4, holds=True), Lower(Row("fire", "fire"), _ALIBI, 4)),
        ),
        (
            "Liu et al. 2023, arXiv:2310.05209",
            "RoPE extrapolates better with base 500 than with 10000",
            "LLaMA 2 7B and 13B, fine-tuned at 4096 tokens",
            (RisesLess(Row("rope-500", "rope base=500"), _ROPE, 2),),
        ),
        (
            "Liu et al. 2023, arXiv:2310.05209",
            "RoPE extrapolates better with a larger base, up to a bound",
            "LLaMA 2 7B and 13B, fine-tuned at 4096 tokens",
            (RisesLess(Row("rope-500000", "rope base=500000"), _ROPE, 2),),
        ),
        (
            "Wang et al. 2024, arXiv:2404.12224",
            "NoPE extrapolates further than RoPE",
            "TinyLlama 1.1B, 2048 tokens",
            (RisesLess(_NOPE_LONG, _ROPE_LONG, 2),),
        ),
        (
            f"{_BARBERO}, 6.1",
            _WITHOUT_LOWEST,
            "2B parameters, 8192 tokens",
            (Alike(Row("p-rope", "rope-proportional partial=0.75"), _ROPE, 1),),
        ),
        (
            "Ruoss et al. 2023, arXiv:2305.16843",
            "Random positions in training let RoPE extrapolate further",
            "fifteen algorithmic tasks; here on text",
            (RisesLess(Row("randomized", "rope"), _ROPE, 8),),
        ),
    ),
    "stretch": (
        (
            f"{_CHEN}, 3.2",
            "RoPE fails catastrophically beyond the trained length; interpolation is better",
            _CHEN_SETTING,
            (Rise(_ROPE, 2, holds=False), Lower(_rope("linear"), _ROPE, 2)),
        ),
        (
            f"{_CHEN}, 3.2",
            "Interpolation without fine-tuning increases the loss",
            _CHEN_SETTING,
            (Rise(_rope("linear"), 2, holds=False),),
        ),
        (
            "bloc97 2023, NTK-aware scaled RoPE",
            "A larger base extends RoPE without fine-tuning, with hardly any increase in loss",
            "LLaMA 7B, 2048 tokens, factor 4; here factor 2",
            (Rise(_rope("ntk"), 2, holds=True),),
        ),
        (
            "bloc97 2023, NTK-aware scaled RoPE",
            "Without fine-tuning, a larger base is better than interpolation",
            "LLaMA 7B, 2048 tokens, factor 4; here also factor 4",
            (Lower(_rope("ntk"), _rope("linear"), 4),),
        ),
        (
            _PENG,
            "Without fine-tuning, YaRN is better than interpolation and a larger base",
            "LLaMA 2 7B, 4096 tokens",
            (Lower(_rope("yarn"), _rope("linear"), 2), Lower(_rope("yarn"), _rope("ntk"), 2)),
        ),
        (
            "Xiao et al. 2023 (StreamingLLM), arXiv:2309.17453",
            "Window attention fails as soon as the first tokens leave the window",
            "Llama 2, MPT, Falcon and Pythia, PG-19",
            (Rise(_rope("window"), 2, holds=False),),
        ),
        (
            f"{_HAN}; Jin et al. 2024 (Self-Extend), arXiv:2401.01325",
            "RoPE works at longer lengths if distances are clipped at the trained length",
            "Llama 2, MPT-7B, GPT-J; Mistral, Phi-2, Solar",
            (Rise(_rope("clip"), 2, holds=True), Rise(_rope("clip"), 4, holds=True)),
        ),
        (
            "Su 2021, kexue.fm/archives/8823",
            "Scaling scores by log n lets RoPE extrapolate better",
            "a blog post on language models",
            (Lower(_rope("log-n"), _ROPE, 2),),
        ),
        (
            "Dosovitskiy et al. 2020, arXiv:2010.11929, 3.2",
            "Interpolated learned rows are better than untrained rows",
            "ViT, fine-tuned at a higher resolution",
            (Lower(Row("text", "learned", "linear"), _LEARNED, 2),),
        ),
    ),
    "task": (
        (
            _KAZEMNEJAD,
            "Recall of the first symbol: NoPE extrapolates further than RoPE, ALiBi and sinusoids",
            _NOT_THEIRS,
            _more_right("first", "nope", ("rope", "sinusoidal", "alibi"), 8),
        ),
        (
            _KAZEMNEJAD,
            "Copying: NoPE extrapolates further than RoPE and ALiBi",
            _KAZEMNEJAD_SETTING,
            _more_right("copy", "nope", ("rope", "alibi"), 2),
        ),
        (
            f"{_KAZEMNEJAD}, 4",
            "Recall of the first symbol: T5 extrapolates further than RoPE, ALiBi and sinusoids",
            _NOT_THEIRS,
            _more_right("first", "t5", ("rope", "sinusoidal", "alibi"), 8),
        ),
        (
            _KAZEMNEJAD,
            "Copying: RoPE and absolute encodings do not extrapolate",
            _KAZEMNEJAD_SETTING,
            (
                Right(Row("copy", "rope"), 2, 0.5, more=False),
                Right(Row("copy", "sinusoidal"), 2, 0.5, more=False),
            ),
        ),
        (
            _KAZEMNEJAD,
            "Sorting: absolute encodings do not extrapolate",
            "decoders of about 107M parameters, trained to 8 items, tested to 16",
            (Right(Row("sorting", "sinusoidal"), 2, 0.5, more=False),),
        ),
        (
            "Men et al. 2024, arXiv:2405.14591",
            "A window keeps the loss low on text, but loses retrieval",
            "Llama 2 7B and others, with small bases; here with a window",
            (
                Rise(_rope("window"), 2, holds=True),
                Right(Row("first", "rope", "window"), 2, 0.5, more=False),
            ),
        ),
        (
            "Men et al. 2024, arXiv:2405.14591",
            "RoPE retrieves less if its base is too small",
            "2B parameters, at the trained length; here beyond it",
            (MoreRight(Row("first", "rope"), Row("first-500", "rope base=500"), 8),),
        ),
        (
            _PENG,
            "YaRN keeps retrieval beyond the trained length without fine-tuning",
            "LLaMA 2, passkeys, after 400 steps of fine-tuning; here without",
            (Right(Row("first", "rope", "yarn"), 8, 0.9, more=True),),
        ),
        (
            "Ruoss et al. 2023, arXiv:2305.16843",
            "Random positions let RoPE and sinusoids copy beyond the trained length",
            "fifteen algorithmic tasks",
            (
                MoreRight(Row("copy-randomized", "rope"), Row("copy", "rope"), 2),
                MoreRight(Row("copy-randomized", "sinusoidal"), Row("copy", "sinusoidal"), 2),
            ),
        ),
    ),
    "expressive": (
        (
            "Vaswani et al. 2017, arXiv:1706.03762, 3.5",
            "PE[p + k] is a linear function of PE[p]",
            "stated in the paper",
            (
                _property(
                    "-s sinusoidal",
                    "linear-shift rotation",
                    "largest error of the rotation of pairs",
                    1e-12,
                ),
            ),
        ),
        (
            "Su et al. 2021, arXiv:2104.09864, 3.4.3",
            "With equal q and k, RoPE's score falls with distance",
            "a bound, plotted for 128 dimensions",
            (
                _property(
                    "-s rope -d 128",
                    "decay value",
                    "distance from which the score stays below half of its value at distance 0",
                    512,
                ),
            ),
        ),
        (
            f"{_BARBERO}, proposition 3.2",
            "With independent q and k, RoPE's score does not fall with distance",
            "Gemma 7B, and a proof",
            (
                _property(
                    "-s rope -d 128",
                    "decay independent deviation spread",
                    "largest / smallest standard deviation of the score, over distances",
                    1.000001,
                ),
            ),
        ),
        (
            "Men et al. 2024, arXiv:2405.14591",
            "Llama 2's base is too small for its 4096 positions",
            "a necessary condition on the sum of cosines",
            (
                _property(
                    "-m llama-2-7b --len 4096",
                    "decay negative_from",
                    "first distance at which the sum is negative",
                    4095,
                ),
            ),
        ),
        (
            f"{_BARBERO}, theorem 5.3",
            "RoPE's high-frequency pairs can attend to the previous token, at any length",
            "Gemma 7B, and a construction",
            (_head("-s rope -d 32 --target previous", 8, 0.99, least=True),),
        ),
        (
            f"{_BARBERO}, proposition 5.2",
            "A single layer without positions cannot attend to the previous token",
            "a proof",
            (_head("-s nope --target previous", 1, 0.1, least=False),),
        ),
        (
            f"{_CHEN}; {_PENG}",
            "Pairs with wavelengths longer than the trained length fail beyond it",
            _CHEN_SETTING,
            (
                _head("-s rope -d 32 --target first", 1, 0.99, least=True),
                _head("-s rope -d 32 --target first", 2, 0.1, least=False),
            ),
        ),
        (
            f"{_PENG}, 3.2",
            "After interpolation, near keys are too close to be distinguished",
            "LLaMA 2",
            (_head("-s rope -d 32 --target previous --stretch linear", 2, 0.1, least=False),),
        ),
        (
            "bloc97 2023, NTK-aware scaled RoPE",
            "A larger base keeps near keys distinguishable",
            "LLaMA 7B",
            (_head("-s rope -d 32 --target previous --stretch ntk", 8, 0.99, least=True),),
        ),
    ),
}
"""By group, each claim's source, its statement, the setting of the source, and the evidence."""

CLAIMS = tuple(Claim(group, *row) for group, rows in _ROWS.items() for row in rows)
