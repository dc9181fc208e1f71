"""The readers of golden packs: each compiled where its compiler is, with right code and wrong."""

import os
import shutil
import subprocess

import pytest

from posenc_cli.choice import choice_of_schemes
from posenc_cli.examples import READERS, reader_text
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.vectors.pack import VectorPack
from posenc_cli.vectors.pack_folder import write_pack
from tests.processes import ran

PORTS = {
    "c": (
        "cc",
        "rotate.c",
        """
#include <math.h>
#include <stdint.h>
void rotate(float *x, long columns, int64_t position) {
    for (long i = 0; i < columns / 2; i++) {
        float angle = position * powf(10000.0f, -2.0f * i / columns);
        float c = cosf(angle), s = sinf(angle), a = x[i], b = x[i + columns / 2];
        x[i] = a * c - b * s;
        x[i + columns / 2] = b * c + a * s;
    }
}
""",
        ("cc -std=c99 -Wall -Wextra -Werror reader.c rotate.c -lm -o port", "./port pack"),
    ),
    "rust": (
        "rustc",
        "rotate.rs",
        """
pub fn rotate(x: &mut [f32], position: i64) {
    let half = x.len() / 2;
    for i in 0..half {
        let angle = position as f32 * 10000f32.powf(-(i as f32) / half as f32);
        let (s, c) = angle.sin_cos();
        let (a, b) = (x[i], x[i + half]);
        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
    }
}
""",
        ("rustc -D warnings reader.rs -o port", "./port pack"),
    ),
    "js": (
        "node",
        "rotate.js",
        """
module.exports = (x, position) => {
  const half = x.length / 2;
  for (let i = 0; i < half; i++) {
    const angle = position * 10000 ** (-i / half);
    const [c, s, a, b] = [Math.cos(angle), Math.sin(angle), x[i], x[i + half]];
    x[i] = a * c - b * s;
    x[i + half] = b * c + a * s;
  }
};
""",
        ("node reader.js pack",),
    ),
    "go": (
        "go",
        "rotate.go",
        """
package main

import "math"

func rotate(x []float32, position int64) {
	half := len(x) / 2
	for i := 0; i < half; i++ {
		s, c := math.Sincos(float64(position) * math.Pow(10000, -float64(i)/float64(half)))
		a, b := float64(x[i]), float64(x[i+half])
		x[i] = float32(a * c - b * s)
		x[i+half] = float32(b*c + a*s)
	}
}
""",
        ("go build -o port reader.go rotate.go", "./port pack"),
    ),
    "swift": (
        "swiftc",
        "rotate.swift",
        """
import Foundation

func rotate(_ x: inout [Float], _ position: Int64) {
    let half = x.count / 2
    for i in 0..<half {
        let angle = Double(position) * pow(10000, -Double(i) / Double(half))
        let (c, s) = (Float(cos(angle)), Float(sin(angle)))
        let (a, b) = (x[i], x[i + half])
        x[i] = a * c - b * s
        x[i + half] = b * c + a * s
    }
}
""",
        ("mv reader.swift main.swift", "swiftc main.swift rotate.swift -o port", "./port pack"),
    ),
}
"""What compiles a port, its file, the port itself, and how it is run."""


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("readers") / "pack"
    choice = choice_of_schemes("rope", {"dim": 16, "layout": "half"}, positions=None)
    write_pack(VectorPack.of(choice, seed=0, dtype=FLOAT32, rule="auto"), str(path), READERS)
    return path


def run(commands, folder):
    """The status and the output of the last command, after others that must succeed."""
    for command in commands:
        environment = {**os.environ, "GO111MODULE": "off"}
        done = ran(*command.split(), check=False, cwd=folder, env=environment)
        assert command == commands[-1] or done.returncode == 0, done.stderr
    return done.returncode, done.stdout + done.stderr


def works(compiler):
    """Whether a compiler is here that runs: rustup's rustc without a toolchain is none."""
    if shutil.which(compiler) is None:
        return False
    version = "version" if compiler == "go" else "--version"
    return not subprocess.run([compiler, version], capture_output=True, check=False).returncode


@pytest.mark.long
@pytest.mark.parametrize("language", PORTS)
def test_a_reader_passes_a_right_port_and_fails_a_wrong_one(language, pack, tmp_path):
    compiler, name, right, commands = PORTS[language]
    if not works(compiler):
        pytest.skip(f"no {compiler} that works is here")
    reader = pack / READERS[language]
    assert reader.read_bytes() == reader_text(language)
    for code, status in ((right, 0), (right.replace("a * c - b * s", "a * c + b * s"), 1)):
        folder = tmp_path / str(status)
        folder.mkdir()
        shutil.copytree(pack, folder / "pack")
        shutil.copy(reader, folder / reader.name)
        (folder / name).write_text(code)
        ended, said = run(commands, folder)
        assert ended == status, said
        assert said.endswith("values wrong\n")
        assert (" 0 of " in said) == said.startswith("largest error 0") == (status == 0)


@pytest.mark.parametrize("language", PORTS)
def test_a_reader_is_some_30_lines_and_says_how_it_is_run(language):
    lines = reader_text(language).decode().splitlines()
    assert len(lines) <= 46
    assert max(map(len, lines)) <= 110
    assert "Compare your rotate with test vectors" in lines[0]


def test_every_language_has_a_reader_and_a_port_here():
    assert READERS.keys() == PORTS.keys()


@pytest.mark.long
@pytest.mark.parametrize("language", PORTS)
def test_a_pack_that_is_not_there_is_told_in_one_line(language, tmp_path):
    compiler, name, right, commands = PORTS[language]
    if not works(compiler):
        pytest.skip(f"no {compiler} that works is here")
    (tmp_path / READERS[language]).write_bytes(reader_text(language))
    (tmp_path / name).write_text(right)
    ended, said = run(commands, tmp_path)
    assert (ended, said.count("\n")) == (2, 1)
    assert "pack/positions.npy" in said
