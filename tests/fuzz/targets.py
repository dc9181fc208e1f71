"""What fuzzing runs: bytes of a file go in; a value or an error of posenc comes out, nothing else.

``make fuzz`` (tools/fuzz.py) searches for other outcomes, guided by which code the bytes reach. The
corpus holds a file for each way through the code that was found; tests replay it.
"""

import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.config_file import read_config
from posenc_cli.configs.engines.runtimes import RUNTIMES
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import PosencError
from posenc_cli.files.reading import read_array

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 1 << 20
"""What a reader may hold in memory: a file that claims more is refused, however small it is."""
_FOLDER = Path(tempfile.mkdtemp(prefix="posenc-fuzz-"))


def _path(name: str, content: bytes) -> str:
    path = _FOLDER / name
    path.write_bytes(content)
    return str(path)


def _reads(suffix: str) -> Callable[[bytes], bool]:
    def read(content: bytes) -> bool:
        path = _path(f"x{suffix}", content)

        def values() -> None:
            found = read_array(path, max_bytes=MOST_BYTES).values
            assert found.dtype.kind in "fc"
            assert found.nbytes <= MOST_BYTES

        return _answers(values)

    return read


def _config(content: bytes) -> bool:
    """A config, read as the engine that its first byte chooses does; all its encodings are made."""
    runtimes = list(RUNTIMES)
    path = _path("config.json", content[1:])

    def encodings() -> None:
        runtime = runtimes[content[0] % len(runtimes)]
        for layers in resolve(read_config(path), runtime=runtime).layers:
            Encoding.of(catalogue.find(layers.scheme), layers.values(), seq_len=64)

    return bool(content) and _answers(encodings)


def _gguf(content: bytes) -> bool:
    path = _path("model.gguf", content)

    def encodings() -> None:
        for layers in resolve(read_config(path)).layers:
            Encoding.of(catalogue.find(layers.scheme), layers.values(), seq_len=64)

    return _answers(encodings)


def _answers(work: Callable[[], None]) -> bool:
    """Whether the work succeeded; an error of posenc is one printable line.

    Raises: whatever is no error of posenc.
    """
    refused = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            work()
    except PosencError as error:
        refused = error.message
    assert refused is None or refused.isprintable()
    assert refused != ""
    return refused is None


TARGETS: Mapping[str, Callable[[bytes], bool]] = {
    "npy": _reads(".npy"),
    "npz": _reads(".npz"),
    "csv": _reads(".csv"),
    "safetensors": _reads(".safetensors"),
    "gguf": _gguf,
    "config": _config,
}


def corpus(target: str) -> dict[str, bytes]:
    """The files of a target's corpus, by name."""
    with zipfile.ZipFile(CORPUS / f"{target}.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def seeds(target: str) -> list[bytes]:
    """Valid files to begin with: what posenc and its peers write, and the configs that it ships."""
    import io

    import numpy as np
    from safetensors.numpy import save

    from posenc_cli.configs.library import find, names
    from tests.gguf_files import CASES, converted

    table = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    if target == "config":
        configs = [json.dumps(dict(find(name).config)).encode() for name in names()]
        return [bytes([place]) + config for place, config in enumerate(configs)]
    if target == "gguf":
        return [content for case in CASES if len(content := converted(case["name"])[1]) < 1 << 14]
    if target == "safetensors":
        return [save({"encoding": table.astype(kind)}) for kind in ("f2", "f4", "f8")]
    found = []
    for kind in ("<f2", ">f4", "<f8", "<c8"):
        stream = io.BytesIO()
        if target == "npy":
            np.save(stream, table.astype(kind))
        elif target == "npz":
            np.savez_compressed(stream, encoding=table.astype(kind))
        else:
            np.savetxt(stream, table, delimiter=",;\t "[len(found)], header="position")
        found.append(stream.getvalue())
    return found
