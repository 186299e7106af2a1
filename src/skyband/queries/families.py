"""The registry of query families: what each is called, and where its parts are.

A family is a package of `skyband` with the same file names as the others (query, monitor, shard, spark, explain, …).
Adding one is a package and a line here. Its parts are loaded when they are first asked for, so that a query of one
family does not load the compiled code of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from skyband.errors import UnsupportedError

__all__ = ["FAMILIES", "Family", "family_of", "refuse_unsupported"]


@dataclass(frozen=True)
class Family:
    """One family of queries: its name in workload files and in `Query.family`, and its package."""

    name: str
    query: str  # the name of its class of queries
    lacks: Mapping[str, str] = field(default_factory=dict)  # by what it cannot do: the reason, and what to do instead

    @property
    def package(self) -> str:
        """The package that holds its parts.

        >>> FAMILIES["aggregate"].package
        'skyband.aggregate'
        """
        return f"skyband.{self.name}"

    @property
    def monitor(self) -> str:
        """How its monitor is called in Python; that of single rows is the first of `skyband` itself.

        >>> FAMILIES["topk"].monitor, FAMILIES["aggregate"].monitor
        ('skyband.Monitor', 'skyband.aggregate.Monitor')
        """
        return "skyband.Monitor" if self.name == "topk" else f"{self.package}.Monitor"

    def part(self, name: str) -> ModuleType:
        """One of its modules: ``"query"``, ``"monitor"``, ``"shard"``, ``"spark"``, ``"explain"``, …"""
        return import_module(f"{self.package}.{name}")


_NOT_COUNTED = (
    "rows that were pushed before are not counted again, so its windows would hold other rows. Add it before the first "
    "push, or start another monitor for it"
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("topk", "TopK"),
        Family("aggregate", "AggregateTopK", lacks={"add to count windows": _NOT_COUNTED}),
        Family("incomplete", "IncompleteTopK", lacks={"add to count windows": _NOT_COUNTED}),
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


def refuse_unsupported(family: str, capability: str, value: str) -> None:
    """Refuse what a family lacks, if it does; `value` is what was asked for, as the user wrote it.

    >>> refuse_unsupported("topk", "add", "add('big')")
    >>> try:
    ...     refuse_unsupported("aggregate", "add to count windows", "add('big') after the first push")
    ... except UnsupportedError as error:
    ...     print(str(error).partition(":")[0])
    add('big') after the first push is not supported for AggregateTopK queries
    """
    found = FAMILIES[family]
    if capability in found.lacks:
        raise UnsupportedError(f"{value} is not supported for {found.query} queries: {found.lacks[capability]}.")
