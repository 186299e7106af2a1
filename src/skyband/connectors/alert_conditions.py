"""The conditions of alerts: what they may be, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from skyband.connectors.section import Wrong

__all__ = ["COMPARED", "LEADER", "SCORE", "TOP", "wrong_conditions"]

LEADER = "leader changes"
TOP = re.compile(r"(enters|leaves) +top +([1-9]\d{0,8})")
SCORE = re.compile(r"score *(>=|<=|>|<) *([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", re.IGNORECASE)
COMPARED: dict[str, Callable[[Any, float], Any]] = {  # of numbers and arrays
    ">": lambda score, limit: score > limit,
    ">=": lambda score, limit: score >= limit,
    "<": lambda score, limit: score < limit,
    "<=": lambda score, limit: score <= limit,
}
_RULE = "must be 'enters top 3', 'leaves top 3', 'leader changes', or a limit such as 'score > 100'"


def wrong_conditions(raw: Mapping[str, Any]) -> Wrong:
    """Yield what is wrong with the conditions of a sink."""
    given = raw.get("when")
    for text in given if isinstance(given, list) else ():
        if isinstance(text, str) and not _is_condition(text):
            yield "when", f"{_RULE}, got {text!r}."


def _is_condition(text: str) -> bool:
    return text == LEADER or any(one.fullmatch(text) for one in (TOP, SCORE))
