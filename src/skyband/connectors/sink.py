"""What all sinks have in common: the keys of every one of them, and how it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.kinds import Kind
from skyband.connectors.values import Text

if TYPE_CHECKING:
    from skyband.spark.delivery import Opening, Outlet

__all__ = ["SinkModel"]


class SinkModel(Kind):
    """Where answers go."""

    tag: ClassVar[str] = "type"
    kinds: ClassVar[dict[str, Any]] = {}
    noun: ClassVar[str] = "a sink of type {kind}"
    purpose: ClassVar[str] = "where answers go"
    foreign: ClassVar[str] = "is for a sink of type {owners}; this one is of type {kind}."
    other_names: ClassVar[Mapping[str, str]] = {
        "folder": "path",
        "mode": "output",
        "address": "url",
        "host": "url",
        "dsn": "url",
        "password": "options",
        "sslmode": "options",
        "ttl": "expire",
        "key_prefix": "prefix",
        "brokers": "servers",
        "bootstrap_servers": "servers",
    }

    type: str = Field(description="Where answers go.")
    output: Literal["answers", "changes"] = Field(
        default="answers",
        description="answers: every window in full. changes: what came, went and moved since the window before; for "
        "queries of type topk.",
    )
    queries: list[Text] | None = Field(
        default=None, min_length=1, description="Only the answers of these queries. Default: all.", examples=[["big"]]
    )

    def open(self, opening: Opening) -> Outlet | None:
        """What takes the answers of a stream; None where the program that runs it shows them itself."""
        raise NotImplementedError

    def settled(self, folder: Path) -> Self:
        """The same with absolute paths; those of the sink are relative to a folder."""
        return self

    @property
    def place(self) -> str | None:
        """The folder or table that answers are found in afterwards, if there is one to look into."""
        return None

    @property
    def target(self) -> str:
        """Where answers go, as a page on the file says it after the type; without secrets."""
        return ""

    def serves(self, query: str) -> bool:
        """Whether answers of a query go here."""
        return self.queries is None or query in self.queries
