"""Migrations of the states of engines that earlier versions stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.kernels.ranked_list import from_skip_list
from skyband.topk.algorithms.base import packed
from skyband.topk.kernels import mintopk

__all__ = ["from_version_2"]


def from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    """Convert a snapshot of version 2, whose engines stored skip lists with links of full height."""
    lanes = saved["lanes"]
    executors = [{**one, "engines": [_engine(engine) for engine in one["engines"]]} for one in lanes["lanes"]]
    return {**saved, "lanes": {**lanes, "lanes": executors}}


def _engine(state: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the state of one engine; the names of its parts identify the engine."""
    new = dict(state)
    if "list" in new:
        new["list"] = packed(from_skip_list(new["list"]))
    if "careers" in new:  # MTopList
        new["careers"] = {name: array.astype(np.int32) for name, array in new["careers"].items()}
    elif "list" in new:  # MinTopk
        new["topk"] = _super_topk(new["topk"])
    elif "registers" in new and "parts" in new:  # SAP
        new["parts"] = {**new["parts"], "meaningful": np.zeros_like(new["parts"]["rho"])}
    return new


def _super_topk(state: Mapping[str, Any]) -> dict[str, Any]:
    base = state["registers"][mintopk.OLDEST]
    marks = np.stack([state["start_w"], state["end_w"]], axis=1) - base
    return {
        # Marks of free slots are undefined.
        "marks": np.clip(marks, -mintopk.FARTHEST, mintopk.FARTHEST).astype(np.int32),
        "tkc": state["tkc"].astype(np.int32),
        "lbp": state["lbp"].astype(np.int32),
        "registers": np.append(state["registers"], base),
    }
