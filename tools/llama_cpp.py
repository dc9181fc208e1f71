"""Record how llama.cpp's own code reads the metadata of each GGUF architecture.

Usage: python -m tools.llama_cpp FOLDER [--check]

FOLDER is llama.cpp's source (its ``src``). The functions that read metadata (``load_hparams`` of
src/llama-model.cpp, ``load_arch_hparams`` of every src/models/*.cpp, ``llama_model_rope_type``) are
compiled by g++ with a stand-in for the file, which answers from a table of a few keys and records
the keys that are read. Each architecture is read in the states of :data:`PROBES`. The arguments of
``ggml_rope_ext`` in its graph, and the tensors that it looks for, are taken from the text.

The answers go to tests/golden/gguf_architectures.json; ``--check`` compares them with it.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.engine_layers import finish
from tools.goldens import laid_out

_SIZES = {
    "context_length": 4096,
    "embedding_length": 96,
    "block_count": 12,
    "attention.head_count": 4,
    "attention.head_count_kv": 4,
    "attention.key_length": 16,
    "attention.value_length": 16,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
_WINDOW = {**_SIZES, "attention.sliding_window": 64}
_BASES = {"rope.freq_base": 500000.0, "rope.scaling.factor": 4.0}
PROBES: Mapping[str, Mapping[str, Any]] = {
    "bare": _SIZES,
    "stretched": {**_SIZES, **_BASES},
    "window": _WINDOW,
    "window, stretched": {**_WINDOW, **_BASES},
    "window, a base of its own": {**_WINDOW, **_BASES, "rope.freq_base_swa": 30000.0},
    "window, every third": {**_WINDOW, "attention.sliding_window_pattern": 3},
    "window, a list": {**_WINDOW, "attention.sliding_window_pattern": [1, 0, 0] * 4},
    "no window": {**_SIZES, "attention.sliding_window": 0},
    "some layers with keys": {**_SIZES, "attention.head_count_kv": [0, 4, 4] * 4},
    "some with keys, window": {**_WINDOW, "attention.head_count_kv": [0, 4, 4] * 4},
    "axes": {**_SIZES, "rope.dimension_sections": [2, 3, 3, 0]},
    "not finetuned": {**_SIZES, "rope.scaling.finetuned": False},
    **{f"{count} layers": {**_WINDOW, "block_count": count} for count in (46, 62, 64)},
    "multipliers": {
        **_SIZES,
        "attention.scale": 0.25,
        "attn_logit_softcapping": 40.0,
        "attention.temperature_scale": 0.5,
        "attention.temperature_length": 2048,
        "rope.scaling.yarn_log_multiplier": 0.125,
        "rope.scaling.yarn_beta_fast": 16.0,
    },
}
"""The metadata with which each architecture is read, by probe."""

FURTHER: Mapping[str, Mapping[str, Any]] = {
    "bailingmoe3": {"kda.gate_lower_bound": -1.0},
    "graniteswitch": {
        "adapters.count": 2,
        "adapters.token_ids_activate": [3, 4],
        "adapters.token_ids_substitute": [5, 6],
    },
}
"""Keys without which an architecture does not load; their values do not matter."""

_STUBS = {
    "ggml.h": """
#pragma once
#include <cstdint>
#include <cstddef>
#define GGML_ASSERT(x) do { if (!(x)) throw std::runtime_error("assertion"); } while (0)
#define GGML_ABORT(...) throw std::runtime_error("abort")
#define GGML_MROPE_SECTIONS 4
#define GGML_ROPE_TYPE_NEOX 2
#include <stdexcept>
enum ggml_op { GGML_OP_NONE };
""",
    "llama.h": """
#pragma once
#include "ggml.h"
#include <cmath>
#include <cstring>
enum llama_rope_type { LLAMA_ROPE_TYPE_NONE = -1, LLAMA_ROPE_TYPE_NORM = 0,
    LLAMA_ROPE_TYPE_NEOX = 2, LLAMA_ROPE_TYPE_MROPE = 8, LLAMA_ROPE_TYPE_IMROPE = 40,
    LLAMA_ROPE_TYPE_VISION = 24 };
enum llama_rope_scaling_type { LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED = -1,
    LLAMA_ROPE_SCALING_TYPE_NONE = 0, LLAMA_ROPE_SCALING_TYPE_LINEAR = 1,
    LLAMA_ROPE_SCALING_TYPE_YARN = 2, LLAMA_ROPE_SCALING_TYPE_LONGROPE = 3 };
enum llama_pooling_type { LLAMA_POOLING_TYPE_UNSPECIFIED = -1, LLAMA_POOLING_TYPE_NONE = 0,
    LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS, LLAMA_POOLING_TYPE_LAST,
    LLAMA_POOLING_TYPE_RANK };
typedef int32_t llama_token;
typedef int32_t llama_pos;
#define LLAMA_TOKEN_NULL -1
struct llama_model_params {};
""",
    "llama-impl.h": """
#pragma once
#include <string>
#include <stdexcept>
#include <cstdio>
#include <cstdarg>
inline std::string format(const char * text, ...) { return text; }
#define LLAMA_LOG_INFO(...) do {} while (0)
#define LLAMA_LOG_WARN(...) do {} while (0)
#define LLAMA_LOG_ERROR(...) do {} while (0)
#define LLAMA_LOG_DEBUG(...) do {} while (0)
""",
}

_LOADER = r"""
#include "llama-arch.h"
#include "llama-hparams.h"
#include "llama-impl.h"
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

struct gguf_context {};
enum gguf_type { GGUF_TYPE_ARRAY };
static int gguf_get_n_kv(const gguf_context *) { return 0; }
static gguf_type gguf_get_kv_type(const gguf_context *, int) { return GGUF_TYPE_ARRAY; }
static const char * gguf_get_key(const gguf_context *, int) { return ""; }
static std::string gguf_kv_to_str(const gguf_context *, int) { return ""; }
static llama_rope_scaling_type llama_rope_scaling_type_from_string(const std::string & name) {
    if (name == "none") return LLAMA_ROPE_SCALING_TYPE_NONE;
    if (name == "linear") return LLAMA_ROPE_SCALING_TYPE_LINEAR;
    if (name == "yarn") return LLAMA_ROPE_SCALING_TYPE_YARN;
    return name == "longrope" ? LLAMA_ROPE_SCALING_TYPE_LONGROPE
                              : LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED;
}

static std::map<std::string, std::vector<double>> given;
static std::set<std::string> asked, required;

struct llama_tensor_weight;
struct ggml_tensor { int64_t ne[4] = {8, 8, 8, 8}; };
struct llama_tensor_weight { ggml_tensor * tensor; };
static ggml_tensor any_tensor;
static llama_tensor_weight any_weight = {&any_tensor};

struct llama_model_loader {
    llm_arch arch;
    LLM_KV llm_kv;
    gguf_context * metadata = nullptr;
    size_t n_bytes = 0;
    int ftype = 0;
    llama_model_loader(llm_arch arch) : arch(arch), llm_kv(arch) {}
    llm_arch get_arch() const { return arch; }
    std::string ftype_name() const { return ""; }
    llama_tensor_weight * get_weight(const char *) const { return &any_weight; }
    ggml_tensor * get_tensor_meta(const char *) const { return &any_tensor; }

    std::string name(enum llm_kv kid) {
        const std::string whole = llm_kv(kid);
        return whole.rfind("%s.", 0) == 0 ? whole.substr(3) : whole;
    }
    bool numbers(const std::string & key, bool needed, std::vector<double> & out) {
        asked.insert(key);
        if (needed) required.insert(key);
        if (given.count(key)) { out = given[key]; return true; }
        if (needed) { out = {2}; return true; }
        return false;
    }
    template <typename T> static void set(T & to, double value) { to = static_cast<T>(value); }
    static void set(std::string & to, double) { to = "none"; }
    template <typename T> bool get_key(const std::string & key, T & out, bool needed = true) {
        std::vector<double> found;
        if (!numbers(key, needed, found) || found.size() != 1) return false;
        set(out, found[0]);
        return true;
    }
    template <typename T> bool get_key(enum llm_kv kid, T & out, bool needed = true) {
        return get_key(name(kid), out, needed);
    }
    template <typename T, size_t N> bool into(std::vector<double> & found, std::array<T, N> & out) {
        for (size_t i = 0; i < found.size() && i < N; ++i) out[i] = static_cast<T>(found[i]);
        return true;
    }
    template <typename T> bool into(std::vector<double> & found, std::vector<T> & out) {
        out.assign(found.size(), T{});
        for (size_t i = 0; i < found.size(); ++i) set(out[i], found[i]);
        return true;
    }
    template <typename T> bool get_arr(const std::string & key, T & out, bool needed = true) {
        std::vector<double> found;
        if (!numbers(key, needed, found)) return false;
        if (found.size() < 2 && !needed) return false;  // a number is no array
        return into(found, out);
    }
    template <typename T> bool get_arr(enum llm_kv kid, T & out, bool needed = true) {
        return get_arr(name(kid), out, needed);
    }
    template <typename T> bool get_arr_n(enum llm_kv kid, T & out, bool needed = true) {
        std::vector<double> found;
        if (!numbers(name(kid), needed, found)) return false;
        out = found.size();
        return true;
    }
    template <typename T, size_t N> bool get_key_or_arr(
            enum llm_kv kid, std::array<T, N> & out, uint32_t n, bool needed = true) {
        std::vector<double> found;
        if (!numbers(name(kid), needed, found)) return false;
        for (size_t i = 0; i < n && i < N; ++i)
            out[i] = static_cast<T>(found.size() == 1 ? found[0] : found[i % found.size()]);
        return true;
    }
    bool get_key_or_arr(enum llm_kv kid, uint32_t & out, bool needed = true) {
        return get_key(kid, out, needed);
    }
};

struct implementation { size_t n_bytes; std::string desc_str; int ftype; };
"""

_MAIN = r"""
int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string architecture, key;
        words >> architecture;
        given.clear(); asked.clear(); required.clear();
        size_t count;
        while (words >> key >> count) {
            std::vector<double> values(count);
            for (auto & value : values) words >> value;
            given[key] = values;
        }
        llama_model_loader ml(llm_arch_from_string(architecture));
        std::unique_ptr<llama_model_base> model(made(ml.arch));
        std::string error;
        try { model->arch = ml.arch; model->load_hparams(ml); }
        catch (const std::exception & raised) { error = raised.what(); }
        const auto & h = model->hparams;
        std::printf("%s\t%d\t%.9g\t%.9g\t%.9g\t%.9g\t%d\t%u\t%u\t", error.c_str(),
            (int) h.rope_type, h.rope_freq_base_train, h.rope_freq_base_train_swa,
            h.rope_freq_scale_train, h.rope_freq_scale_train_swa, (int) h.swa_type, h.n_swa,
            h.n_no_rope_layer_step);
        for (uint32_t i = 0; i < h.n_layer_all; ++i) std::printf("%d", (int) h.is_swa_impl[i]);
        std::printf("\t");
        for (uint32_t i = 0; i < h.n_layer_all; ++i) std::printf("%d", (int) h.is_recr_impl[i]);
        std::printf("\t");
        for (uint32_t i = 0; i < h.n_layer_all; ++i) std::printf("%d", (int) h.rope_pattern[i]);
        std::printf("\t%.9g\t%d\t%.9g\t%.9g\t%u\t%.9g\t%.9g\t%.9g\t%.9g\t%u\t%u\t%.9g\t",
            h.f_attention_scale, (int) h.attn_soft_cap, h.f_attn_logit_softcapping,
            h.f_attn_temp_scale, h.n_attn_temp_floor_scale, h.f_attn_temp_offset,
            h.rope_yarn_log_mul, h.yarn_beta_fast, h.yarn_beta_slow, h.n_rot_full, h.n_rot_swa,
            h.f_max_alibi_bias);
        for (const auto & name : asked) std::printf("%s ", name.c_str());
        std::printf("\t");
        for (const auto & name : required) std::printf("%s ", name.c_str());
        std::printf("\n");
    }
}
"""

_BASE = r"""
enum llm_type { %(types)s };
%(operations)s;
struct llama_vocab { uint32_t n_tokens() const { return 32000; } };
struct llama_model {
    llm_type type = LLM_TYPE_UNKNOWN;
    llm_arch arch = LLM_ARCH_UNKNOWN;
    std::string name;
    llama_hparams hparams = {};
    llama_vocab vocab;
    std::vector<std::string> classifier_labels;
    std::vector<int32_t> target_layer_ids;
    std::map<std::string, std::string> gguf_kv;
    std::unique_ptr<implementation> pimpl = std::make_unique<implementation>();
    std::string arch_name() const { return llm_arch_name(arch); }
    std::string type_name() const { return ""; }
    virtual ~llama_model() = default;
    virtual void load_hparams(llama_model_loader & ml) = 0;
};
llama_rope_type llama_model_rope_type(const llama_model * model);
struct llama_model_base : llama_model {
    void load_swa_pattern(llama_model_loader & ml, uint32_t n_pattern, bool dense_first = false);
    void load_hparams(llama_model_loader & ml) override;
    virtual void load_arch_hparams(llama_model_loader & ml) = 0;
};
"""
_CONSTANTS = re.compile(
    r"^(?:static )?const(?:expr)? std::(?:array|map)<[^;]*? (?:GLM\w+|LLM_FFN\w+) = .*?;$",
    re.M | re.S,
)
_MEMBERS = re.compile(r"^    (?! |using)[\w:<>, ]+ \w+(?: += [^;()]+)?;$", re.M)
_HELPERS = re.compile(r"^static \w+ \w+\((?:const )?llama_model_loader & ", re.M)
_ROPE_TYPES = {-1: "none", 0: "norm", 2: "neox", 8: "mrope", 40: "imrope"}
_WINDOWS = ("none", "standard", "chunked", "symmetric")
_WORDS = ("sliding", "recurrent", "turning")
_FIELDS: Mapping[str, float] = {
    "base": 10000.0,
    "sliding_base": 10000.0,
    "scale": 1.0,
    "sliding_scale": 1.0,
    "window_type": 0,
    "window": 0,
    "still_every": 4,
    "attention_scale": 0.0,
    "softcapped": 0,
    "softcap": 50.0,
    "temperature_scale": 0.0,
    "temperature_length": 0,
    "temperature_offset": 0.0,
    "log_multiplier": 0.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "width": 16,
    "sliding_width": 16,
    "alibi": 0.0,
}
"""The printed numbers, and their values before any metadata is read."""
_KEYS = re.compile(
    r"rope|alibi|softcap|interval|recurrent|_block_count|buckets|"
    r"attention\.(scale|sliding|temperature|key_length|output_scale)"
)
_GUARDS = {
    "every step": r"use_rope\s*=[^;]*\(il \+ 1\) % hparams\.n_no_rope_layer_step != 0",
    "every step from the first": r"use_rope\s*=[^;]*[^+1)] il % hparams\.n_no_rope_layer_step != 0",
    "unless sliding": r"use_rope\s*=[^;]*is_swa\(il\)|"
    r"if \((?:is_swa|is_local_layer|hparams\.is_swa\(il\))[^)]*\) \{\s*"
    r"(?:const \w+ \w+\s*=[^;]*;\s*|ggml_tensor \* rope_factors[^;]*;\s*)*(?:Q|q)\w* = ggml_rope",
    "by pattern": r"has_rope\((?:il|0)\)",
}
"""The rules of unrotated layers, by a part of the graph's text."""
_COMMON = (
    "attention.key_length",
    "attention.key_length_swa",
    "block_count",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
)
"""The keys that every file is asked for."""


def _function(text: str, beginning: str) -> str:
    """Return a function's text up to its last brace; empty if there is none."""
    start = text.find(beginning)
    if start < 0:
        return ""
    end = text.index("{", start) + 1
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start:end]


class Source:
    """llama.cpp's source: its text, and a program of its functions that read metadata."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "src"
        self.models = {
            path.stem: path.read_text("utf-8")
            for path in sorted((self.folder / "models").glob("*.cpp"))
        }
        self.model = (self.folder / "llama-model.cpp").read_text("utf-8")
        names = (self.folder / "llama-arch.cpp").read_text("utf-8")
        self.names = dict(re.findall(r"\{ *(LLM_ARCH_\w+), *\"([\w.-]+)\" *\}", names))
        mapping = _function(self.model, "static llama_model * llama_model_mapping(")
        self.classes: dict[str, str] = {}
        for cases, made in re.findall(r"((?:case LLM_ARCH_\w+:\s*)+)return new (\w+)\(", mapping):
            for each in re.findall(r"LLM_ARCH_\w+", cases):
                self.classes[self.names[each]] = made
        headers = (self.folder / "models" / "models.h").read_text("utf-8")
        self.parents = dict(
            re.findall(r"^struct (llama_model_\w+) : public (\w+) \{", headers, re.M)
        )
        self.headers = headers

    def program(self) -> str:
        """Return llama.cpp's functions that read metadata, with a stand-in for the file."""
        architectures = (self.folder / "llama-arch.cpp").read_text("utf-8")
        types = _function((self.folder / "llama-model.h").read_text("utf-8"), "enum llm_type")
        operations = _function(
            (self.folder / "llama-graph.h").read_text("utf-8"), "enum llm_ffn_op_type : int {"
        )
        parts = [
            _LOADER,
            architectures[: architectures.index("static const std::map<llm_tensor")],
            *(
                _function(architectures, beginning)
                for beginning in (
                    "LLM_KV::LLM_KV(",
                    "std::string LLM_KV::operator()(",
                    "const char * llm_arch_name(",
                    "llm_arch llm_arch_from_string(",
                    "bool llm_arch_is_recurrent(",
                )
            ),
            (self.folder / "llama-hparams.cpp").read_text("utf-8"),
            _BASE % {"types": types[types.index("{") + 1 : -1], "operations": operations},
            *(
                constant
                for text in [*self.models.values(), self.model]
                for constant in _CONSTANTS.findall(text)
            ),
        ]
        parts.append(_function(self.headers, "struct msa_params") + ";")
        own = [
            _function(text, f"void {name}::load_arch_hparams(")
            for text in self.models.values()
            for name in self.parents
        ]
        bodies = "\n".join(own)
        for name, parent in self.parents.items():
            has = f"void {name}::load_arch_hparams(" in bodies
            declared = ["    void load_arch_hparams(llama_model_loader & ml) override;"] * has
            declared += _MEMBERS.findall(_function(self.headers, f"struct {name} : public"))
            parts.append("\n".join([f"struct {name} : {parent} {{", *declared, "};"]))
        parts += [
            _function(self.model, beginning)
            for beginning in (
                "void llama_model_base::load_swa_pattern(",
                "void llama_model_base::load_hparams(",
                "llama_rope_type llama_model_rope_type(",
                "llm_ffn_op_type llm_ffn_op_type_from_string(",
            )
        ]
        cases = "\n".join(
            f'    if (name == "{name}") return new {made}();' for name, made in self.classes.items()
        )
        parts += [
            _function(text[match.start() :], match[0])
            for text in self.models.values()
            for match in _HELPERS.finditer(text)
        ]
        parts.append(bodies)
        parts.append(
            "static llama_model_base * made(llm_arch arch) {\n"
            f"    const std::string name = llm_arch_name(arch);\n{cases}\n    return nullptr;\n}}"
        )
        return "\n".join([*parts, _MAIN])

    def lineage(self, name: str) -> Iterator[str]:
        """Yield a class and the classes that it inherits from."""
        yield name
        while name in self.parents:
            name = self.parents[name]
            yield name

    def loader_of(self, name: str) -> str:
        """Return the function of a class that loads tensors; empty if it has none of its own."""
        beginning = f"void {name}::load_arch_tensors("
        return next(filter(None, (_function(text, beginning) for text in self.models.values())), "")

    def answers(self) -> Iterator[list[str]]:
        """Yield the program's answer for each architecture and state, in order."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, text in _STUBS.items():
                (folder / name).write_text(text, "utf-8")
            for name in ("llama-arch.h", "llama-hparams.h"):
                (folder / name).write_text((self.folder / name).read_text("utf-8"), "utf-8")
            source, program = folder / "it.cpp", folder / "it"
            source.write_text(self.program(), "utf-8")
            command = ["g++", "-std=c++17", "-w", f"-I{folder}", str(source), "-o", str(program)]
            subprocess.run(command, check=True)
            lines = [
                " ".join([name, *(_words(key, value) for key, value in keys.items())])
                for name in self.classes
                for keys in ({**probe, **FURTHER.get(name, {})} for probe in PROBES.values())
            ]
            done = subprocess.run(
                [program], input="\n".join(lines), capture_output=True, text=True, check=True
            )
        return (line.split("\t") for line in done.stdout.splitlines())


def _words(key: str, value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    return " ".join([key, str(len(values)), *(str(float(each)) for each in values)])


def _fields(printed: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the rope type and the changed fields of the struct, from a line of the program."""
    error, rope_type, *values = printed
    numbers = [*values[:7], *values[10:22]]
    found: dict[str, Any] = {} if not error else {"error": error}
    for (name, usual), text in zip(_FIELDS.items(), numbers, strict=True):
        number = float(text)
        if number != usual:
            found[name] = int(number) if number.is_integer() and abs(number) < 1e9 else number
    words = dict(zip(_WORDS, values[7:10], strict=True))
    found |= {
        name: text for name, text in words.items() if ("0" if name == "turning" else "1") in text
    }
    if "window_type" in found:
        found["window_type"] = _WINDOWS[found["window_type"]]
    return _ROPE_TYPES[int(rope_type)], found


def _arguments(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the calls of ggml's rotations in a text, with their arguments."""
    for match in re.finditer(r"\b(ggml_rope(?:_ext|_multi)?)\(", text):
        depth, end, parts = 1, match.end(), [""]
        while depth:
            letter = text[end]
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == "," and depth == 1:
                parts.append("")
            elif depth:
                parts[-1] += letter
            end += 1
        yield match[1], [" ".join(part.split()) for part in parts]


def graph_facts(source: Source, name: str) -> dict[str, Any]:
    """Return the arguments of ggml's calls in a graph's text, and the tensors it looks for."""
    graph = made = source.classes[name]
    while inherited := re.search(
        r"using graph = (\w+)::graph", _function(source.headers, f"struct {graph} : public")
    ):
        graph = inherited[1]
    drawn = next((text for text in source.models.values() if f"{graph}::graph" in text), "")
    loaded = next(filter(None, map(source.loader_of, source.lineage(made))), "")
    calls = [
        (call, arguments)
        for call, arguments in _arguments(drawn)
        if not re.search("index|comp_pos|blk_pos", " ".join(arguments))
    ]
    factors = {
        "none" if call == "ggml_rope" or arguments[3] in ("nullptr", "NULL") else "given"
        for call, arguments in calls
    }
    bases = {arguments[-6] for call, arguments in calls if call != "ggml_rope"}
    stretched = {arguments[-5] for call, arguments in calls if call != "ggml_rope"}
    still = sorted(name for name, guard in _GUARDS.items() if re.search(guard, drawn))
    return {
        "still": still if calls else [],
        "tensors": sorted(
            {match.lower() for match in re.findall(r"LLM_TENSOR_ROPE_(?:FACTORS_)?(\w+)", loaded)}
        ),
        "factors": sorted(factors),
        "bases": sorted(bases) or (["10000"] if calls else []),
        "stretched": sorted(stretched) or (["1"] if calls else []),
        "mscaled": "attn_factor_org" in drawn,
        "scaled": "f_attention_scale" in drawn,
        "tempered": "build_inp_attn_scale" in drawn,
    }


def facts(source: Source) -> Iterator[dict[str, Any]]:
    """Yield how llama.cpp reads each architecture in each state of the probes."""
    answers = source.answers()
    for name in source.classes:
        probes: dict[str, Any] = {}
        asked: set[str] = set()
        needed: set[str] = set()
        types: dict[str, str] = {}
        for probe in PROBES:
            *printed, keys, required = next(answers)
            types[probe], found = _fields(printed)
            asked |= {*keys.split()}
            needed |= {*required.split()}
            if found:
                probes[probe] = found
        own = sorted(key for key in asked if _KEYS.search(key) and key not in _COMMON)
        yield {
            "name": name,
            "rope_type": types["bare"],
            "rope_type_of_axes": types["axes"],
            "keys": own,
            "needed": sorted(key for key in needed if _KEYS.search(key) and key != "block_count"),
            **graph_facts(source, name),
            "probes": probes,
        }


_STATEMENT = {
    "name": "gguf_architectures",
    "family": "gguf",
    "peer": "llama.cpp as vendored by llama-cpp-python 0.3.36: load_hparams and "
    "llama_model_rope_type of src/llama-model.cpp, load_arch_hparams of src/models/*.cpp, compiled "
    "by g++ and run by tools/llama_cpp.py; what graphs give to ggml, off their text",
    "meaning": "for each architecture the rope type without and with sections for axes; the keys "
    "that it alone reads and those it needs (a needed key that a state lacks was 2 there); the "
    "tensors that it looks for; what its graph gives to ggml_rope_ext as factors, base and scale; "
    "and in each state of probes what load_hparams left otherwise than the struct begins",
}


def main() -> int:
    """Write the golden, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    cases = list(facts(Source(options.folder)))
    text = laid_out({**_STATEMENT, "probes": PROBES, "cases": cases})
    return finish({f"{_STATEMENT['name']}.json": text.encode()}, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
