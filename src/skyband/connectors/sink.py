"""The base class of all sinks: the keys that every sink has, and how it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from skyband.connectors.kinds import Kind
from skyband.connectors.values import Text

if TYPE_CHECKING:
    from skyband.sharding.delivery import Opening, Outlet

__all__ = ["SinkModel"]


class SinkModel(Kind):
    """A destination of answers."""

    tag: ClassVar[str] = "type"
    kinds: ClassVar[dict[str, Any]] = {}
    noun: ClassVar[str] = "a sink of type {kind}"
    purpose: ClassVar[str] = "where answers go"
    foreign: ClassVar[str] = "is for a sink of type {owners}; this sink has type {kind}."
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
        description="answers: every window in full. changes: rows that entered, left or moved since the previous "
        "window.",
    )
    queries: list[Text] | None = Field(
        default=None,
        min_length=1,
        description="Write only the answers of these queries. Default: all.",
        examples=[["big"]],
    )

    @property
    def reads_old_scores(self) -> bool:
        """Whether it receives the score in the previous window with each change."""
        return False

    def open(self, opening: Opening) -> Outlet | None:
        """Return the writer for the answers of a stream; None if the running program displays them itself."""
        raise NotImplementedError

    def settled(self, folder: Path) -> Self:
        """Return a copy with paths resolved against `folder`."""
        return self

    @property
    def place(self) -> str | None:
        """The folder or table that contains the answers, if there is one."""
        return None

    @property
    def target(self) -> str:
        """The destination, as explain output shows it after the type; without secrets."""
        return ""

    def serves(self, query: str) -> bool:
        """Whether this sink receives the answers of a query."""
        return self.queries is None or query in self.queries
