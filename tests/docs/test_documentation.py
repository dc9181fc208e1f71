"""Every example of the pages and of each --help runs, and what is generated is current."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import posenc_cli as library
from posenc_cli.cli.command_line import COMMANDS, function_of
from posenc_cli.configs import library as models
from posenc_cli.examples import llama
from tests import gguf_files
from tests.matrices import matrix
from tests.processes import ran
from tools import gallery, pages, screenshot

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = {path: path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}


DIFFERENT = {
    "posenc rope-check -m llama-3.1-8b --tables cos.npy sin.npy",
    "posenc rope-check -s rope -d 64 --layout half --impl ./my_model/rope.py:apply --len 64",
    "posenc compare rope-yarn rope-yarn --set b.attention_factor=1 --tol 1e-6",
    "posenc compare gpt-oss-20b --as llama.cpp",
    "posenc compare llama-3.1-8b llama-3.1-8b --set b.factor=16 --tol 1e-6",
    "posenc compare config.json model.gguf",
    "posenc compare rope rope --dim 64 --set b.base=500000 --len 128",
    "posenc compare sinusoidal rope --dim 64 --len 128 --out difference.png",
    "posenc compare gemma-3-4b rope --layer-type full_attention --set b.dim=256",
    "posenc rope-check -m llama-3.1-8b -l 4096 --impl posenc_cli.examples.llama:rotate",
    "posenc identify model.safetensors",  # whose table is random
}
"""Examples that find a difference, and end with status 1, where no output is shown for them."""

MY_MODEL = """
import numpy as np


def apply(x, positions):
    half = x.shape[1] // 2
    angles = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, 0::2] = x[:, 0::2] * cos - x[:, 1::2] * sin
    y[:, 1::2] = x[:, 0::2] * sin + x[:, 1::2] * cos
    return y
"""


@pytest.fixture(scope="session")
def users_folder(tmp_path_factory):
    """A folder with the files that examples speak of: a config, tables, code of a user's own."""
    folder = tmp_path_factory.mktemp("user")
    config = json.dumps(dict(models.find("llama-3.1-8b").config))
    (folder / "models" / "llama").mkdir(parents=True)
    for place in (folder, folder / "models" / "llama"):
        (place / "config.json").write_text(config)
    given = {"dim": 128, "base": 500_000.0}
    for function in ("cos", "sin"):
        np.save(folder / f"{function}.npy", matrix("rope", "0:4096", table=function, **given))
    np.save(folder / "dump.npy", matrix("rope-llama3", None, table="inv-freq", **given))
    np.save(folder / "table.npy", matrix("sinusoidal", "0:64"))
    np.save(folder / "ids.npy", np.maximum(np.arange(128) - 28, 0))
    draw = np.random.default_rng(0).standard_normal
    np.save(folder / "pos_embed.npy", draw((1, 197, 16), "f4"))
    np.save(folder / "dinov2.npy", draw((1, 1370, 16), "f4"))
    np.save(folder / "q.npy", draw((2, 4, 32, 128), "f4"))
    np.save(folder / "x.npy", draw((32, 64), "f4"))
    np.savez(folder / "bert.npz", position_embeddings=draw((512, 16), "f4"))
    small = {
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (32, 4),
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (32, 4),
        "shared.weight": (99, 16),
    }
    save_file({name: draw(shape, "f4") for name, shape in small.items()}, folder / "t5.safetensors")
    save_file({"wpe.weight": draw((64, 16), "f4")}, folder / "model.safetensors")
    plain = matrix("rope", None, table="inv-freq", **given).astype("f4")
    names = [f"model.layers.{layer}.self_attn.rotary_emb.inv_freq" for layer in range(32)]
    save_file(dict.fromkeys(names, plain), folder / "checkpoint.safetensors")
    _, converted = gguf_files.converted("llama-3.1-8b")
    (folder / "llama-3.1-8b.gguf").write_bytes(converted)
    keys, _ = gguf_files.parsed(converted)
    del keys["llama.rope.freq_base"]
    (folder / "model.gguf").write_bytes(gguf_files.gguf_bytes(keys))
    index = {"weight_map": {"wpe.weight": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "my_model").mkdir()
    (folder / "my_model" / "rope.py").write_text(MY_MODEL)
    own = PAGES[ROOT / "docs" / "encodings.md"].partition("## Your own function")[2]
    (folder / "waves.py").write_text(re.findall(r"```python\n(.*?)```", own, re.DOTALL)[0])
    return folder


@pytest.fixture
def shell(tmp_path, users_folder):
    """A shell in a user's folder that finds posenc and python3 where the tests do."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, arguments in (("posenc", "-m posenc_cli"), ("python3", "")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)
    folder = tmp_path / "work"
    shutil.copytree(users_folder, folder)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        # No example fills a reader's disk: a file of more than 64 MiB fails it. 512 bytes a block.
        environment = {"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(folder)}
        limited = f"ulimit -f 131072\n{command}"
        return ran("sh", "-c", limited, check=False, cwd=folder, env=environment)

    return run


def check_library(commands: str) -> None:
    """Leave out commands that need a library which is not here."""
    if "posenc extrapolate" in commands:
        pytest.importorskip("torch", reason="torch is not installed")


def examples_of_help(name: str) -> list[str]:
    text = (function_of(name).__doc__ or "").partition("Examples:")[2]
    return re.findall(r"^ +(posenc .+)$", text, re.MULTILINE)


def consoles() -> list[list[tuple[str, str]]]:
    """The commands of each console block of the pages, with the output shown for them."""
    blocks = re.findall(r"```console\n(.*?)```", "\n".join(PAGES.values()), re.DOTALL)
    each = re.compile(r"\$ (.+)\n((?:(?!\$ ).*\n)*)")
    return [[(line.strip(), said) for line, said in each.findall(block)] for block in blocks]


@pytest.mark.long
@pytest.mark.sweep(20)
@pytest.mark.parametrize("name", [*reversed(COMMANDS)])  # the last is the cheapest
def test_every_example_of_help_runs(name, shell):
    examples = examples_of_help(name)
    assert len(examples) >= 2
    check_library("\n".join(examples))
    for example in examples:
        done = shell(example)
        assert done.returncode == (example in DIFFERENT), (example, done.stderr)


def without_times(text: str) -> str:
    return re.sub(r"in \d+\.\d\d s", "in … s", text)


@pytest.mark.long
@pytest.mark.sweep(40)
@pytest.mark.parametrize(
    "block", [b for b in consoles() if "make" not in b[0][0]], ids=lambda b: b[0][0]
)
def test_every_console_block_of_the_pages_says_what_happens(block, shell):
    check_library("\n".join(command for command, _ in block))
    for command, output in block:
        done = shell(command)
        failed = re.search("^(DIFFERENT|FAILED)", output, re.MULTILINE)
        different = bool(failed) if output else command in DIFFERENT
        status = 2 if "posenc: error:" in output else int(different)
        assert done.returncode == status, (command, done.stderr)
        if output:
            assert without_times(done.stdout + done.stderr) == without_times(output)


TAUGHT = PAGES[ROOT / "docs" / "understand.md"].partition("## What textbooks say")[2]
STATEMENTS = re.findall(r"^\| (.+?) \| `(posenc .+?)` \| (`.+`) \|$", TAUGHT, re.MULTILINE)


def test_every_statement_has_a_command_and_what_it_prints():
    assert len(STATEMENTS) == len(re.findall(r"^\| (?!statement)", TAUGHT, re.MULTILINE)) > 25


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "commands", "prints"), STATEMENTS, ids=[row[0] for row in STATEMENTS]
)
def test_what_is_taught_is_shown_by_its_command(statement, commands, prints, call):
    printed = []
    for command in commands.split(" && "):
        status, out, err = call(*shlex.split(command)[1:])
        assert status in (0, 1, 2), statement
        printed += (out + err).split()
    for words in re.findall(r"`([^`]+)`", prints):
        assert words in " ".join(printed), statement


def test_the_first_command_of_the_readme_is_a_target_that_runs_the_main_job():
    assert re.search(r"```console\n\$ (.*)\n\$ (.*)", README).groups() == ("make demo", "make test")
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    assert "$(POSENC) generate --scheme rope --len 4096\n" in recipe
    assert "POSENC = $(RUN) -m posenc_cli\n" in makefile


@pytest.mark.long
def test_the_wrong_implementation_of_the_readme_fails_for_the_reason_it_shows():
    report = library.rope_check("llama-3.1-8b", impl=llama.rotate, positions=256)
    passed = {finding.check: finding.ok for finding in report.findings}
    assert (report.ok, report.cause) == (False, "scaling-missing")
    assert passed == {"relative": True, "norm": True, "identity": True, "reference": False}


def test_what_the_readme_says_of_gpt_oss_is_what_compare_finds(call):
    command, words = "posenc compare gpt-oss-20b --as llama.cpp", " ".join(README.split())
    assert command in README
    told = r"exits with status 1, because .* disagree on (\d+) of the (\d+) rotary frequencies"
    counted = re.search(told, words)
    status, out, _ = call(*command.split()[1:], "--json")
    found = json.loads(out)
    assert (status, found["differing"], found["count"]) == (1, *map(int, counted.groups()))


@pytest.mark.long
def test_the_readme_says_how_to_run_a_reader_as_the_reader_itself_does(call, tmp_path):
    assert call("emit", "-m", "llama-3-8b", "--reader", "c", "--out", "pack", "-q")[0] == 0
    compiled = re.search(r"`cc pack/(reader\.c yours\.c -lm && \./a\.out pack)`", README)[1]
    assert f": cc {compiled} */" in (tmp_path / "pack" / "reader.c").read_text()


def test_the_readme_says_what_configs_of_other_kinds_are_good_for():
    assert "diffusers configs" in " ".join(README.split())
    assert "`explain --as all`" in README
    assert "`compare config.json model.gguf`" in README
    assert "3 a missing file or an environment problem" in README


def test_the_readme_is_short_and_its_pages_name_every_command():
    assert len(README.encode()) <= 7000
    commands = PAGES[ROOT / "docs" / "commands.md"]
    for name in COMMANDS:
        assert f"`{name}`" in commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_of_a_page_is_there(page):
    places = re.findall(r"\]\((?!https://)([^)#\s]+)\)", PAGES[page])
    assert [place for place in places if not (page.parent / place).exists()] == []
    if page.is_relative_to(docs := ROOT / "docs"):  # the site has nothing else
        assert [p for p in places if not (page.parent / p).resolve().is_relative_to(docs)] == []


@pytest.mark.long
def test_every_generated_part_is_in_one_page_and_current():
    every = "\n".join(PAGES.values())
    assert sorted(re.findall(r"<!-- begin (\w+) -->", every)) == sorted(pages.GENERATED)
    assert [path.name for path, text in PAGES.items() if pages.written(text) != text] == []


def test_the_page_of_each_encoding_is_current_and_leads_to_pictures_that_are_there():
    schemes = pages.scheme_pages()
    there = {path: path.read_text() for path in pages.SCHEME_PAGES.glob("*.md")}
    assert there == schemes
    for path, text in schemes.items():
        places = re.findall(r"\]\((?!https://)([^)#\s]+)\)", text)
        assert [place for place in places if not (path.parent / place).exists()] == []


def test_the_readme_links_every_page_and_the_site_has_it():
    pages = {path.relative_to(ROOT).as_posix() for path in PAGES if path.parent != ROOT}
    assert pages <= set(re.findall(r"\]\(([^)]+)\)", README))
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert named == {Path(page).name for page in pages} | {"schemes/index.md"}


@pytest.mark.slow
def test_the_pictures_are_what_posenc_draws():
    assert pages.stale_images() == []
    shown = {Path(place).name for place in re.findall(r"images/[\w-]+\.png", README)}
    assert {*pages.SCREENSHOTS, *pages.FIGURES} == shown


def test_the_gallery_shows_its_pictures_and_no_others_and_they_are_small():
    page = (ROOT / "docs" / "gallery.md").read_text()
    folder = ROOT / "docs" / gallery.FOLDER
    shown = re.findall(rf"{gallery.FOLDER}/([\w.-]+\.png)", page)
    assert len(shown) == len({*shown})
    assert {*shown} == {path.name for path in folder.iterdir()} == {*gallery.files()}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3 << 20
    assert all(f"$ posenc {known.command}\n" in page for known in gallery.KNOWN)


@pytest.mark.slow
def test_pictures_of_the_gallery_are_what_posenc_draws(tmp_path):
    few = [picture for picture in gallery.drawn() if picture[0] in ("alibi-slopes", "rope-heatmap")]
    gallery.draw(tmp_path, few)
    for path in tmp_path.iterdir():
        assert pages._look_alike(ROOT / "docs" / gallery.FOLDER / path.name, path)


@pytest.mark.long
def test_a_picture_of_one_other_digit_is_stale(tmp_path):
    def picture(output, name):
        screenshot.draw("posenc", output, tmp_path / name)
        return tmp_path / name

    printed = "relative    ok       9.8e-08   3.8e-06   position 4015, pair 41\n" * 4
    kept = picture(printed, "kept.png")
    assert pages._look_alike(kept, kept)
    assert not pages._look_alike(kept, picture(printed.replace("41", "47", 1), "digit.png"))
    assert not pages._look_alike(kept, picture(printed[:-64], "shorter.png"))
    assert not pages._look_alike(tmp_path / "none.png", kept)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_speaks_of_is_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    named = set(re.findall(r"`([\w./-]+(?:\.(?:py|md|json|toml|txt)|/))`", text))
    assert len(named) > 10
    places = (ROOT, ROOT / "posenc_cli", ROOT / "posenc_cli" / "configs")
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert sorted(missing) == []


def guided_code(heading: str) -> str:
    """The code that the contributing guide gives under a heading."""
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## {heading}\n")[2]
    code = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    return "\n".join(line.removeprefix("   ") for line in code.splitlines())


def test_the_scheme_of_the_contributing_guide_works(tmp_path, monkeypatch, call):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text(guided_code("A new scheme"))
    asked = ("generate", "-s", "./mine.py:rope_scaled", "-l", "9", "--set", "factor=2")
    assert call(*asked, "-o", "a.npy")[0] == 0
    assert call("generate", "-s", "rope", "-l", "9", "-o", "b.npy")[0] == 0
    scaled, plain = (np.load(tmp_path / name) for name in ("a.npy", "b.npy"))
    assert (scaled[0::2] == plain[: len(scaled[0::2])]).all()
    np.save(tmp_path / "table.npy", scaled)
    commands = re.findall(r"^posenc (.*mine.*)$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert len(commands) == 3
    for command in commands:
        assert call(*shlex.split(command))[0] == 0


@pytest.mark.slow
def test_the_format_of_the_contributing_guide_takes_one_file_and_one_line(posenc, tmp_path):
    copied = tmp_path / "posenc_cli"
    shutil.copytree(ROOT / "posenc_cli", copied)  # what is compiled, too
    (copied / "files" / "tsv.py").write_text(guided_code("A new file format"))
    table = copied / "files" / "formats.py"
    line, imported = "        csv.FORMAT,\n", "from posenc_cli.files import csv, "
    table.write_text(
        table.read_text()
        .replace(line, f"{line}        tsv.FORMAT,\n")
        .replace(imported, f"{imported}tsv, ")
    )

    def run(*arguments):
        done = posenc(*arguments, env={"PYTHONPATH": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "csv|tsv" in run("generate", "--help")
    run("generate", "-s", "rope", "-l", "9", "-d", "4", "--out", "a.tsv")
    expected = matrix("rope", "0:9", dim=4)
    np.save(tmp_path / "b.npy", expected)
    assert (np.loadtxt(tmp_path / "a.tsv", np.float32) == expected).all()
    assert json.loads(run("compare", "a.tsv", "b.npy", "--tol", "1e-7", "--json"))["ok"]


def test_the_command_of_the_contributing_guide_takes_one_file_and_one_line(
    tmp_path, monkeypatch, call
):
    heading = "A new command"
    (tmp_path / "guided_command.py").write_text(guided_code(heading))
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## {heading}\n")[2]
    name, place = re.search(r'`"(\w+)": "posenc_cli\.cli\.commands\.(\w+:\w+)"`', guide).groups()
    assert place == f"{name}:{name}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, name, f"guided_command:{name}")
    assert "--need N" in call(name, "--help")[1]
    assert call(name, "-s", "rope", "--need", "9")[:2] == (0, "positions: any\n")
    learned = (name, "-s", "learned", "--set", "max_len=8")
    status, out, _ = call(*learned, "--need", "9", "--json")
    answer = {"schema": f"posenc/{name}/1", "ok": False, "positions": 8}
    assert (status, json.loads(out)) == (1, answer)
    assert call(*learned, "--need", "0") == (2, "", "posenc: error: --need 0: must be at least 1\n")
