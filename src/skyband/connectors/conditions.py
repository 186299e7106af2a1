"""Pieces of JSON Schema that say which keys go together; a key without a value counts as left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["NULL", "Schema", "absent", "given"]

Schema = dict[str, Any]

NULL: Schema = {"type": "null"}


def given(*names: str) -> Schema:
    """These keys have values."""
    return {"required": list(names), "properties": {name: {"not": NULL} for name in names}}


def absent(names: Iterable[str]) -> Schema:
    """These keys have none."""
    return {"properties": dict.fromkeys(names, NULL)}
