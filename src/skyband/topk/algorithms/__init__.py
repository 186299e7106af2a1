"""One file per published algorithm, and the table of their names. An engine is loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import UnknownNameError

if TYPE_CHECKING:
    from skyband.topk.algorithms.base import Engine

__all__ = ["ENGINES", "Engine", "algorithms", "engine_named"]

# By name: the file, and the class in it. The order is the one in which `skyband.algorithms()` tells of them.
_FILES = {
    "naive": ("naive", "Naive"),
    "kskyband": ("kskyband", "KSkyband"),
    "sma": ("sma", "SMA"),
    "pretopk": ("pretopk", "PreTopk"),
    "mintopk": ("mintopk", "MinTopk"),
    "sap-equal": ("sap", "SapEqual"),
    "sap-dynamic": ("sap", "SapDynamic"),
    "sap": ("sap", "SapEnhanced"),
    "panes": ("panes", "Panes"),
    "mtopband": ("mtopband", "MTopBand"),
    "mtoplist": ("mtoplist", "MTopList"),
}


class _Engines(Mapping[str, "type[Engine]"]):
    def __getitem__(self, name: str) -> type[Engine]:
        file, cls = _FILES[name]
        engine: type[Engine] = getattr(import_module(f"skyband.topk.algorithms.{file}"), cls)
        return engine

    def __contains__(self, name: object) -> bool:
        return name in _FILES

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


ENGINES: Mapping[str, type[Engine]] = _Engines()


def engine_named(name: str) -> type[Engine]:
    """The engine that `name` stands for; ``"auto"`` has to be resolved before."""
    if not isinstance(name, str) or name not in ENGINES:
        raise UnknownNameError.among("algorithm", name, ["auto", *ENGINES])
    return ENGINES[name]


def algorithms() -> dict[str, str]:
    """Every algorithm that `Monitor` and `replay` take by name, with a line on what it does.

    >>> import skyband as sb
    >>> "mintopk" in sb.algorithms()
    True
    """
    return {name: engine.summary for name, engine in ENGINES.items()}


def __getattr__(name: str) -> Any:
    if name == "Engine":
        return import_module("skyband.topk.algorithms.base").Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
