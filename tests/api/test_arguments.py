"""What callers may give, and errors in the words of arguments."""

import inspect
import json
import math

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.api.arguments import GivenPositions, argument_text

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 5e5,
    "max_position_embeddings": 4096,
}
ARRAY = np.ones((4, 8))
MASKED = np.ma.masked_array(np.ones((2, 2), np.float32), mask=np.eye(2))


def positions(given):
    return list(GivenPositions.of(given).positions)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (3, [0, 1, 2]),
        (range(2, 9, 3), [2, 5, 8]),
        (range(3, 0, -1), [3, 2, 1]),
        ("0:3,10", [0, 1, 2, 10]),
        ([4, 4, 5, 0], [4, 4, 5, 0]),
        (np.array([7, 8, 9], np.int32), [7, 8, 9]),
        (np.array([7], np.uint64), [7]),
    ],
)
def test_positions_come_in_the_order_they_are_given(given, numbers):
    assert positions(given) == numbers


@pytest.mark.parametrize(
    "given",
    [
        0,
        -1,
        range(0),
        "5:2",
        [],
        [math.nan],
        [math.inf],
        [2**53 + 1],
        [1e300],
        [1e-300],
        [0.1, 1000.0],
        [1.5, "a"],
        True,
        "a",
        np.zeros(3, complex),
        {},
        [[1, 2], [3]],
        np.array(4),
    ],
)
def test_what_names_no_position_is_a_value_error(given):
    with pytest.raises(ValueError, match="position"):
        posenc.encode("rope", given, dim=8)


def test_an_encoding_is_a_scheme_a_model_a_path_a_dict_or_a_config(tmp_path):
    class PretrainedConfig:
        def to_dict(self):
            return CONFIG

    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    tables = [
        posenc.encode(encoding, 8)
        for encoding in (path, str(path), CONFIG, PretrainedConfig(), posenc.from_config(CONFIG))
    ]
    for table in tables[1:]:
        assert np.array_equal(table, tables[0])
    assert posenc.encode("llama-3-8b", 4).shape == (4, 128)


def test_parameters_replace_those_of_a_config():
    assert posenc.frequencies("llama-3-8b", base=1e4)[1] == posenc.frequencies("rope", dim=128)[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: posenc.encode("cope", 4), "contextual position encoding depends on the tokens"),
        (lambda: posenc.encode("rop", 4), "'rop' is neither a scheme nor a model (did you mean"),
        (lambda: posenc.encode("rope", 4, dim=3), "dim 3: rotary encodings rotate pairs"),
        (lambda: posenc.encode("rope", 4, dmi=4), "dmi: rope has no parameter 'dmi'"),
        (lambda: posenc.encode("rope", 4, dim=4, dtype="int8"), "dtype 'int8': must be one of"),
        (lambda: posenc.encode("rope", 4, dim=4, dtype="bf16"), "NumPy has no such format"),
        (
            lambda: posenc.encode("rope", 4, dim=4, dtype="float16", round_to="float32"),
            "round_to float32: float16 cannot hold every value of it",
        ),
        (lambda: posenc.encode("alibi", 4, heads=8, head=8), "head 8: the heads are 0 to 7"),
        (
            lambda: posenc.encode("alibi", 4, heads=8, table="cos"),
            "alibi is an attention bias",
        ),
        (lambda: posenc.encode("gemma-3-4b", 4), "layers of gemma3_text differ"),
        (lambda: posenc.encode(3, 4), "an int is not an encoding"),
        (lambda: posenc.encode("rope+alibi", 4, dim=8, heads=2), "is 2 encodings"),
        (lambda: posenc.from_config({"rope_theta": "x", "model_type": "llama"}), "rope_theta"),
        (
            lambda: posenc.bias("rope", 4, dim=8),
            "is a rotary encoding, not a bias",
        ),
        (lambda: posenc.frequencies("alibi"), "encoding 'alibi' has no frequencies"),
        (
            lambda: posenc.rotate(np.ones((4, 8)), None, 4, "alibi"),
            "alibi': an attention bias does not rotate",
        ),
        (lambda: posenc.rotate(np.ones((4, 8)), None, 5, "rope", dim=8), "5 positions along axis"),
        (lambda: posenc.rotate(np.ones((4, 6)), None, 4, "rope", dim=8), "at least 8 columns"),
        (lambda: posenc.rotate(np.ones((4, 8), int), None, 4, "rope", dim=8), "not int64"),
        (
            lambda: posenc.rotate([[1.0, 0.0]], None, 1, "rope", dim=2),
            "q: must be an array or a tensor, not a list",
        ),
        (lambda: posenc.encode("rope", 4, dim=8, table="zz"), "table 'zz': must be one of cos-sin"),
        (lambda: posenc.encode("rope", 4, dim=8, arithmetic="zz"), "arithmetic 'zz': must be"),
        (lambda: posenc.encode("rope", 4, dim=8, like=[1.0]), "like: must be an array"),
        (lambda: posenc.encode("rope", 4, dim=8, out="x"), "out: must be a NumPy array"),
        (lambda: posenc.encode("rope", 4, dim=8, round_to="int8"), "round_to 'int8'"),
        (
            lambda: posenc.tables("rope", 4, dim=8, out=np.ones(3)),
            "out: tables takes no such",
        ),
        (lambda: posenc.blocks("sinusoidal+alibi", 4), "is 2 encodings"),
        (lambda: posenc.similarity("rope", 4, dim=8, normalize="zz"), "normalize 'zz'"),
        (lambda: posenc.similarity("rope", 4, dim=8, content="zz"), "content 'zz'"),
        (lambda: posenc.heatmap("rope", 4, dim=8, theme="blue"), "theme 'blue'"),
        (lambda: posenc.heatmap("rope", 4, dim=8, width=10**9), "width '1000000000': must be"),
        (lambda: posenc.heatmap("rope", 4, dim=8, columns=range(0)), "columns: must be a range"),
        (lambda: posenc.compare("rope", "rope", tol=float("nan")), "tol 'nan'"),
        (lambda: posenc.compare(MASKED, "rope", dim=4), "a is a masked array (its filled(…)"),
        (lambda: posenc.identify(MASKED), "array is a masked array"),
        (lambda: posenc.rope_check("rope", tables=(MASKED,) * 2), "cos is a masked array"),
        (lambda: posenc.rotate(MASKED, None, 2, "rope", dim=2), "q is a masked array"),
        (lambda: posenc.encode("rope", MASKED, dim=2), "positions is a masked array"),
        (lambda: posenc.encode("rope", 2, dim=2, like=MASKED), "like is a masked array"),
        (lambda: posenc.encode("rope", 2, dim=2, out=MASKED), "out is a masked array"),
        (lambda: posenc.frequencies("rope", like=[1.0]), "like: must be an array or a tensor"),
        (lambda: posenc.identify(np.ones((2, 3)), np.ones((3, 2))), "cos and sin: must have one"),
        (lambda: posenc.resize(ARRAY), "positions and grid: neither is given"),
        (lambda: posenc.resize(ARRAY, 0), "positions 0: must be a whole number of at least 1"),
        (lambda: posenc.resize(ARRAY, True), "positions True"),
        (lambda: posenc.resize(ARRAY, 10**30), "is past 2^53"),
        (lambda: posenc.resize(ARRAY, 3, prefix=-1), "prefix -1"),
        (lambda: posenc.resize(ARRAY, 3, prefix=4), "prefix 4: table has 4 rows"),
        (lambda: posenc.resize(ARRAY, grid=(7, 1)), "grid (7, 1): must be ((A, B), (C, D))"),
        (lambda: posenc.resize(ARRAY, grid=((7, 1), (0, 2))), "must be ((A, B), (C, D))"),
        (lambda: posenc.resize(ARRAY, grid=((2, 3), (4, 5))), "grid 2x3 takes 6 rows"),
        (lambda: posenc.resize(ARRAY, 3, method="cubic"), "method 'cubic': must be one of linear"),
        (lambda: posenc.resize(ARRAY, 3, arithmetic="float16"), "arithmetic 'float16': must be"),
        (lambda: posenc.resize(ARRAY, 3, interpolate_offset=2), "interpolate_offset needs grid"),
        (lambda: posenc.resize([[1.0, 2.0]], 3), "table: must be an array or a tensor"),
        (lambda: posenc.resize("table.npy", 3), "table: must be an array or a tensor"),
        (lambda: posenc.resize(None, 3), "table: must be an array or a tensor"),
        (lambda: posenc.resize(ARRAY.astype(complex), 3), "real numbers, not complex numbers"),
        (lambda: posenc.check("rope"), "slopes, buckets or impl: give the values to check"),
        (lambda: posenc.check("sinusoidal", frequencies=[1.0]), "frequencies holds 1 frequencies"),
        (lambda: posenc.encode("rope", 3.5), "positions 3.5: must be a whole number, a range"),
        (lambda: posenc.from_config("llama3.1"), "config (did you mean 'llama-3.1-8b'?)"),
        (lambda: posenc.encode("rope"), "(positions=N, or positions=start:stop)"),
        (lambda: posenc.check("sinusoidal"), "values, vectors, frequencies, slopes, buckets or"),
        (lambda: posenc.check("sinusoidal", vectors=(None, None)), "vectors: must be two arrays"),
        (lambda: posenc.apply(np.ones((0, 8)), "rope"), "x holds no numbers"),
        (lambda: posenc.inspect("rope", 4, require=None), "require None: must be a string or a"),
        (lambda: posenc.inspect("rope", 4, require=3), "require 3: must be a string or a list"),
        (lambda: posenc.inspect("rope", 4, require=[None]), "require: must be a string or a list"),
        (lambda: posenc.inspect("rope", 4, require=np.array(3.0)), "require a numpy.ndarray: must"),
        (lambda: posenc.similarity("rope", 4, content=3), "content 3: must be a string or a list"),
        (lambda: posenc.identify(ARRAY, schemes=3), "schemes 3: must be a list of names"),
        (lambda: posenc.identify(ARRAY, schemes="./x.py:f"), "must be a list of names"),
        (lambda: posenc.encode("rope", 4, dim=8, table=3), "table 3: must be a string"),
        (lambda: posenc.encode("alibi", 4, head=1.5), "head 1.5: must be a whole number"),
        (lambda: posenc.tables("rope", 4, full=ARRAY), "full a numpy.ndarray: must be True or"),
        (lambda: posenc.rope_check("rope", python=3), "python 3: must be a path"),
        (lambda: posenc.from_config(posenc.from_config("gpt2"), runtime="vllm"), "already read"),
    ],
)
def test_errors_are_value_errors_that_name_arguments(call, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
        call()
    assert words in str(error.value)
    assert "--" not in str(error.value)
    assert isinstance(error.value, posenc.PosencError)


def test_what_the_machine_lacks_is_no_value_error(tmp_path):
    with pytest.raises(posenc.Unavailable):
        posenc.from_config(tmp_path / "absent.json")


def test_what_a_caller_names_stays_as_it_is(tmp_path):
    folder = tmp_path / "run--len"
    folder.mkdir()
    (folder / "config.json").write_text("{}}")
    with pytest.raises(ValueError, match="run--len/config.json"):
        posenc.from_config(folder / "config.json")
    assert argument_text("--len 'a --len b': wrong") == "positions 'a --len b': wrong"


def test_a_message_about_options_becomes_one_about_arguments():
    assert argument_text("--set factor=2, --layer-type x, or --as vllm") == (
        "factor=2, layer_type x, or runtime vllm"
    )


CALLS = {
    "alibi_slopes": (8,),
    "apply": (np.ones((4, 8)), "rope"),
    "assert_rope": ("rope",),
    "bias": ("alibi", 4),
    "blocks": ("rope", 4),
    "check": ("sinusoidal",),
    "compare": ("rope", "rope"),
    "curve": ("rope", 4),
    "encode": ("rope", 4),
    "frequencies": ("rope",),
    "from_config": ("gpt2",),
    "heatmap": ("rope", 4),
    "identify": (np.ones((4, 8)),),
    "inspect": ("rope",),
    "resize": (np.ones((4, 8)), 8),
    "rope_check": ("rope",),
    "rotate": (np.ones((4, 8)), None, 4, "rope"),
    "similarity": ("rope", 4),
    "spectrum": ("rope",),
    "tables": ("rope", 4),
}


def named_arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def test_every_function_with_arguments_to_name_is_looked_at():
    functions = {name: getattr(posenc, name) for name in dir(posenc) if not name.startswith("_")}
    public = {name for name, each in functions.items() if inspect.isfunction(each)}
    assert {name for name in public if inspect.signature(functions[name]).parameters} == {*CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_is_misspelt_is_told_by_the_one_that_is_meant(name):
    function = getattr(posenc, name)
    for argument in named_arguments(function):
        if len(argument) > 4:  # two letters in the wrong order
            misspelt = f"{argument[:2]}{argument[3]}{argument[2]}{argument[4:]}"
            with pytest.raises((TypeError, ValueError)) as error:
                [*function(*CALLS[name], **{misspelt: None})]
            assert f"(did you mean '{argument}='?)" in str(error.value)


def test_the_one_table_is_told_that_it_is_two():
    with pytest.raises(ValueError, match=r"\(did you mean 'tables='\?\)"):
        posenc.rope_check("rope", table=(np.ones((4, 8)),) * 2)
    with pytest.raises(ValueError, match=r"\(did you mean 'positions='\?\)"):
        posenc.rope_check("llama-3.1-8b", impl=len, length=64)
    with pytest.raises(TypeError, match=r"missing .*'encoding' \(did you mean 'encoding='\?\)"):
        posenc.frequencies(encodign="rope")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: posenc.compare(ARRAY, ARRAY, toll=0.5), "toll applies .* 'tol='"),
        (lambda: posenc.compare(ARRAY, ARRAY, dim=8), "dim applies to an encoding, .*array$"),
        (lambda: posenc.heatmap(ARRAY, dim=8), "dim applies to an encoding, not to an array$"),
        (lambda: posenc.curve(ARRAY, 4), "positions applies to an encoding, not to an array$"),
        (lambda: posenc.heatmap(ARRAY, table="cos"), "table applies to an encoding, .*array$"),
        # A parameter of other schemes is not one of the function's, misspelt: dpi.
        (
            lambda: posenc.heatmap("alibi", 4, dim=3),
            r"dim: alibi has no parameter 'dim' \([^()]*\)$",
        ),
        # The rule that a parameter breaks is no reason to take it for another: head.
        (lambda: posenc.encode("alibi", 4, heads=0), "heads 0: must be from 1 to 65536$"),
    ],
)
def test_what_an_array_has_no_use_for_is_refused_and_no_other_name_is_guessed(call, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        call()


class Labelled:
    """No array, with the dtype of one."""

    dtype, shape = np.dtype("float32"), (4, 8)


@pytest.mark.parametrize("value", [np.float32(1), Labelled()], ids=["scalar", "own"])
def test_what_is_no_array_is_not_called_by_the_format_that_is_asked_for(value):
    for call in (
        lambda: posenc.apply(value, "rope"),
        lambda: posenc.resize(value, 4),
        lambda: posenc.rope_check("rope", impl=value),
    ):
        with pytest.raises(
            ValueError, match=r"(not a|impl a) (numpy\.float32|tests\.Labelled)(: must be .*)?$"
        ):
            call()


def test_a_dtype_that_is_none_is_shown_as_it_was_given():
    with pytest.raises(ValueError, match=r"^dtype '\[1\. 1\.\]': must be one of float16"):
        posenc.encode("rope", 4, dtype=np.ones(2))


@pytest.mark.parametrize("order", "<>")
def test_the_order_of_bytes_is_no_other_format(order):
    x = np.asarray(posenc.encode("sinusoidal", 4, dim=8))
    foreign = x.astype(f"{order}f4")
    assert (posenc.apply(foreign, "rope") == posenc.apply(x, "rope")).all()
    assert (posenc.encode("sinusoidal", 4, dim=8, out=np.zeros_like(foreign)) == x).all()


@pytest.mark.parametrize("kind", ["meta", "sparse"])
def test_a_tensor_without_values_is_no_parameter(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.tensor(8, device="meta") if kind == "meta" else torch.ones(1).to_sparse()
    with pytest.raises(posenc.ArgumentError, match="dim"):
        posenc.encode("rope", 4, dim=tensor)
