"""One file per published algorithm, and the table of their names. An engine is imported when it is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import UnknownNameError

if TYPE_CHECKING:
    from skyband.topk.algorithms.base import Engine

__all__ = ["ENGINES", "Engine", "algorithms", "engine_named"]

# By name: the file, and the class in it. `skyband.algorithms()` lists them in this order.
_FILES = {
    "naive": ("naive", "Naive"),
    "kskyband": ("kskyband", "KSkyband"),
    "sma": ("sma", "SMA"),
    "pretopk": ("pretopk", "PreTopk"),
    "mintopk": ("mintopk", "MinTopk"),
    "sap-eager": ("sap", "SapEager"),
    "sap-rescan": ("sap", "SapRescan"),
    "sap-equal": ("sap", "SapEqual"),
    "sap-dynamic": ("sap", "SapDynamic"),
    "sap": ("sap", "SapEnhanced"),
    "sap-shared": ("sap_shared", "SapShared"),
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
    """Return the engine class with this name; ``"auto"`` must be resolved before."""
    if not isinstance(name, str) or name not in ENGINES:
        raise UnknownNameError.among("algorithm", name, ["auto", *ENGINES])
    return ENGINES[name]


def algorithms() -> dict[str, str]:
    """Return the names of all algorithms that `Monitor` and `replay` support, each with a one-line description.

    >>> import skyband as sb
    >>> "mintopk" in sb.algorithms()
    True
    """
    return {name: engine.summary for name, engine in ENGINES.items()}


def __getattr__(name: str) -> Any:
    if name == "Engine":
        return import_module("skyband.topk.algorithms.base").Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
