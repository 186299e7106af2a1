"""The registry of query families: what each is called, and where its parts are.

A family is a package of `skyband` with the same file names as the others (query, monitor, shard, spark, explain, …).
Adding one is a package and a line here. Its parts are loaded when they are first asked for, so that a query of one
family does not load the compiled code of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["FAMILIES", "Family", "family_of"]


@dataclass(frozen=True)
class Family:
    """One family of queries: its name in workload files and in `Query.family`, and its package."""

    name: str
    query: str  # the name of its class of queries

    @property
    def package(self) -> str:
        """The package that holds its parts.

        >>> FAMILIES["aggregate"].package
        'skyband.aggregate'
        """
        return f"skyband.{self.name}"

    def part(self, name: str) -> ModuleType:
        """One of its modules: ``"query"``, ``"monitor"``, ``"shard"``, ``"spark"``, ``"explain"``, …"""
        return import_module(f"{self.package}.{name}")


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("topk", "TopK"),
        Family("aggregate", "AggregateTopK"),
        Family("incomplete", "IncompleteTopK"),
        Family("uncertain", "UncertainTopK"),
    )
}


def family_of(query: Any) -> Family:
    """The family that a query is of.

    >>> import skyband as sb
    >>> family_of(sb.TopK(k=1, size=10)).query
    'TopK'
    """
    return FAMILIES[query.family]
