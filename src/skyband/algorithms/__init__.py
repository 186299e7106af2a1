"""One file per published algorithm, and the table of their names."""

from __future__ import annotations

from skyband.algorithms.base import Engine
from skyband.algorithms.blocks import Blocks
from skyband.algorithms.kskyband import KSkyband
from skyband.algorithms.mintopk import MinTopk
from skyband.algorithms.naive import Naive
from skyband.algorithms.panes import Panes
from skyband.algorithms.pretopk import PreTopk
from skyband.algorithms.sma import SMA
from skyband.errors import UnknownNameError

__all__ = ["ENGINES", "Engine", "engine_named"]

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (Naive, KSkyband, SMA, PreTopk, MinTopk, Panes, Blocks)}


def engine_named(name: str) -> type[Engine]:
    """The engine that `name` stands for."""
    if name == "auto":
        return Panes
    if name not in ENGINES:
        raise UnknownNameError.among("algorithm", name, ["auto", *ENGINES])
    return ENGINES[name]
