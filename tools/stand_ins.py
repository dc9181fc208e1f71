"""Make an engine's own modules importable if most of their imports are missing.

The tested parts of an engine are its own. All other imports (kernels, linear layers, normalization,
the launch of a server) are stand-ins without effect.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

NO = ("is_", "cpu_has", "get_bool", "use_", "has_", "support", "should", "can_", "enable")
"""First parts of the names of functions that ask for features of a machine: they have none."""


class Nothing:
    """A stand-in for missing code: it and all its attributes are false; sizes are 1."""

    def __init__(self, name: str = "") -> None:
        self.__name__ = name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 1 if "size" in name else 0 if "rank" in name else Nothing(name)

    def __call__(self, *arguments: Any, **_options: Any) -> Any:
        """Return a decorated function unchanged; for other arguments, nothing."""
        if len(arguments) == 1 and callable(arguments[0]):  # a decorator
            return arguments[0]
        if self.__name__.startswith(NO):
            return False
        return 1 if "size" in self.__name__ else 0 if "rank" in self.__name__ else Nothing()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:  # in annotations
        return other

    __ror__ = __or__


class Kind(type):
    """The metaclass of stand-ins for classes, whose members are `Nothing`."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or not cls.__dict__.get("stands_in"):
            raise AttributeError(name)
        return Nothing(name)


class Part(nn.Module, metaclass=Kind):  # type: ignore[misc]
    """A stand-in for a class of modules; derived classes work as usual."""

    stands_in = True

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not type(self).__dict__.get("stands_in"):
            return super().__getattr__(name)
        return getattr(Nothing(), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return nothing if this is a stand-in."""
        if type(self).__dict__.get("stands_in"):
            return Nothing()(*arguments, **options)
        return super().__call__(*arguments, **options)


class StandIn(types.ModuleType):
    """A module that has every attribute."""

    known: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for key in (f"{self.__name__}.{name}", name):
            if key in self.known:
                return self.known[key]
        if name.endswith("Mixin"):
            value: Any = type(name, (), {})
        elif name[:1].isupper() and not name.isupper():
            value = Kind(name, (Part,), {"stands_in": True})
        else:
            value = Nothing(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the parts of an engine that are its own, and stand-ins for all others.

    folder: the folder of its package.
    root: the package to which the other names are relative.
    own: the parts that are its own; ``stood_in_for`` are the exceptions.
    packages: packages whose own ``__init__`` does not run.
    absent: packages that it imports and that are not installed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        root: str,
        own: Sequence[str],
        stood_in_for: Sequence[str],
        packages: frozenset[str],
        absent: frozenset[str],
    ) -> None:
        self.folder, self.root, self.own, self.stood_in_for = folder, root, own, stood_in_for
        self.packages = packages
        self.engine = root.partition(".")[0]
        self.tops = absent | {self.engine}

    def find_spec(
        self, name: str, _path: Any = None, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module of a name below the engine, or of an absent package."""
        if name.partition(".")[0] not in self.tops:
            return None
        below = name.removeprefix(self.engine)
        below = below.removeprefix(self.root.removeprefix(self.engine)).removeprefix(".")
        file = self.folder / name.replace(".", "/")
        own = _within(below, self.own) and not _within(below, self.stood_in_for)
        if own and below not in self.packages:
            found = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            if found.exists():
                places = [str(file)] if file.is_dir() else None
                return importlib.util.spec_from_file_location(
                    name, found, submodule_search_locations=places
                )
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [str(file)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return an empty stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing."""


def _within(name: str, parts: Sequence[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def function_of(file: Path, name: str, **scope: Any) -> Any:
    """Return a function of a file, compiled alone."""
    tree = ast.parse(file.read_text("utf-8"))
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    exec(compile(tree, str(file), "exec"), scope)
    return scope[name]


SHARED_CODE: Mapping[str, str] = {
    **dict.fromkeys(("cohere", "cohere2"), "commandr.CohereDecoderLayer"),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2"), "deepseek_v2"),
    "glm_ocr_text": "glm4",
    "gptj": "gpt_j.GPTJBlock",
    "granite_swa": "granite",
    **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text"), "qwen2"),
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""The file, and maybe the class, of model types without a file of their own in sglang and vLLM."""
_IDLE = re.compile("(MLP|MoE|Moe|MoeBlock|MLPBlock|(?<!MixtureOf)Experts)$")
"""Ends of the names of classes that do not rotate."""


def layer_class(package: str, model_type: str, classes: Mapping[str, str]) -> Any:
    """Return the class that builds a layer of a model type, without its parts that do not rotate.

    ``classes`` has its file, and maybe its class. By default, the class is the file's DecoderLayer.
    """
    place = {**SHARED_CODE, **classes}.get(model_type, model_type)
    file, _, name = place.removesuffix("_text").partition(".")
    module = importlib.import_module(f"{package}.{file}")
    usual = f"{file.replace('_', '')}decoderlayer"
    kind = getattr(module, name or next(key for key in vars(module) if key.lower() == usual))
    for own in {each.__module__ for each in kind.__mro__ if each.__module__.startswith(package)}:
        for key, member in vars(sys.modules[own]).copy().items():
            if _IDLE.search(key) and inspect.isclass(member):
                setattr(sys.modules[own], key, Kind(key, (Part,), {"stands_in": True}))
    return kind


def rotary_owner(layer: Any) -> Any:
    """Return the part of a layer that rotates queries, or None."""
    parts = layer.modules()
    return next((part for part in parts if "rotary_emb" in vars(part)["_modules"]), None)


def layout_of_moved_rows(moved: Any, head: int) -> str:
    """Return the layout of files whose loader moves the rows of q and k, such as Llama 4's.

    The halves of the moved rows are the pairs of the stored ones.
    """
    return "interleaved" if abs(int(moved[head // 2, 0] - moved[0, 0])) == 1 else "half"
