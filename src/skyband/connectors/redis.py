"""Redis and Valkey sink: the newest answers in sorted sets. The writer, which needs redis-py, is imported on open."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from skyband.connectors.kinds import Schema
from skyband.connectors.secrets import SecretsRule
from skyband.connectors.section import Wrong
from skyband.connectors.server import ServerSink, seconds
from skyband.connectors.values import Gap, Scalar, Text
from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError

if TYPE_CHECKING:
    from skyband.connectors.redis_writer import SortedSets
    from skyband.sharding.delivery import Opening

__all__ = ["RedisSink"]


class RedisSink(ServerSink):
    """Stores the newest answer of each query, or of each of its groups, in a sorted set.

    >>> RedisSink(url="redis://127.0.0.1:6379/0", expire="1 hour").target
    ' to keys skyband:… at redis://127.0.0.1:6379/0'
    """

    missing: ClassVar[Mapping[str, str]] = {"url": "set the address of the server, such as redis://127.0.0.1:6379/0"}
    schemes: ClassVar[tuple[str, ...]] = ("redis://", "rediss://", "unix://")
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule(
        "set REDISCLI_AUTH in the environment, or write ${NAME} and set NAME there."
    )
    conditions: ClassVar[tuple[Schema, ...]] = ({"properties": {"output": {"not": {"const": "changes"}}}},)

    type: Literal["redis"] = Field(default="redis", description="sorted sets of Redis or Valkey")
    url: Text = Field(
        repr=False,
        description="The address of the server. A password in it must come from the environment.",
        examples=["rediss://cache.example:6379/0"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Arguments of the redis-py client. Secrets must come from the environment.",
        examples=[{"ssl_ca_certs": "ca.pem"}],
    )
    prefix: Text | None = Field(
        default=None,
        description="The prefix of key names. Default: skyband.",
        examples=["skyband", "shop:best"],
    )
    member: Text | None = Field(
        default=None,
        description="The column to use as member of the sorted sets. Default: the whole row, as JSON.",
        examples=["trade_id"],
    )
    sort: Literal["score", "rank"] | None = Field(
        default=None,
        description="The score of members: the row's score, or its place in the answer. Default: score.",
    )
    expire: Gap | None = Field(
        default=None,
        description="How long to retain an answer that no newer answer replaces. Default: no limit.",
        examples=["1 hour"],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Reject output: changes, and durations of expire that are too short."""
        yield from super().rules(raw)
        if raw.get("output") == "changes":
            yield "output", "'changes' is not supported: a sorted set stores the newest answer; write answers."
        expire = raw.get("expire")
        with suppress(InvalidQueryError):  # reported by the validation of durations
            if isinstance(expire, str) and parse_duration(expire, field="expire") < 1_000:
                yield "expire", f"must be at least 1 millisecond, got {expire!r}."

    def open(self, opening: Opening) -> SortedSets:
        """Return a writer of the sorted sets."""
        from skyband.connectors.redis_writer import SortedSets

        return SortedSets(
            opening.queries(self.queries),
            url=self.url,
            options=self.options,
            prefix=self.prefix or "skyband",
            member=self.member,
            by_rank=self.sort == "rank",
            expire=None if self.expire is None else seconds(self.expire),
            retry=self.patience,
        )

    @property
    def target(self) -> str:
        """The keys and the server."""
        return f" to keys {self.prefix or 'skyband'}:…{self.address}"
