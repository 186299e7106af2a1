"""Redis or Valkey: the newest answers in sorted sets. The writer, which needs redis-py, is loaded when it is opened."""

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
    from skyband.spark.delivery import Opening

__all__ = ["RedisSink"]


class RedisSink(ServerSink):
    """Keeps the newest answer of each query, and of each of its groups, in a sorted set.

    >>> RedisSink(url="redis://127.0.0.1:6379/0", expire="1 hour").target
    ' to keys skyband:… at redis://127.0.0.1:6379/0'
    """

    missing: ClassVar[Mapping[str, str]] = {"url": "say where the server is, such as redis://127.0.0.1:6379/0"}
    schemes: ClassVar[tuple[str, ...]] = ("redis://", "rediss://", "unix://")
    secrets_rule: ClassVar[SecretsRule | None] = SecretsRule(
        "set REDISCLI_AUTH in the environment, or write ${NAME}, and set NAME there."
    )
    conditions: ClassVar[tuple[Schema, ...]] = ({"properties": {"output": {"not": {"const": "changes"}}}},)

    type: Literal["redis"] = Field(default="redis", description="sorted sets of Redis or Valkey")
    url: Text = Field(
        repr=False,
        description="Where the server is. A password in it must come from the environment.",
        examples=["rediss://cache.example:6379/0"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Arguments of redis-py's client. A secret among them must come from the environment.",
        examples=[{"ssl_ca_certs": "ca.pem"}],
    )
    prefix: Text | None = Field(
        default=None,
        description="What the names of keys begin with. Default skyband.",
        examples=["skyband", "shop:best"],
    )
    member: Text | None = Field(
        default=None,
        description="The column that members of the sorted sets are. Default: the whole row, as JSON.",
        examples=["trade_id"],
    )
    sort: Literal["score", "rank"] | None = Field(
        default=None,
        description="What members are scored by: the row's score, or its place in the answer. Default score.",
    )
    expire: Gap | None = Field(
        default=None,
        description="How long an answer stays when no newer one comes. Default: for ever.",
        examples=["1 hour"],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """A set holds an answer, and holds it for some time."""
        yield from super().rules(raw)
        if raw.get("output") == "changes":
            yield "output", "'changes' have no newest answer, which is what a sorted set holds; write answers."
        expire = raw.get("expire")
        with suppress(InvalidQueryError):  # told where durations are read
            if isinstance(expire, str) and parse_duration(expire, field="expire") < 1_000:
                yield "expire", f"{expire!r} is over at once; the shortest time is 1 millisecond."

    def open(self, opening: Opening) -> SortedSets:
        """A writer of the sets."""
        from skyband.connectors.redis_writer import SortedSets

        return SortedSets(
            opening.asked(self.queries),
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
        """The keys, and where the server is."""
        return f" to keys {self.prefix or 'skyband'}:…{self.address}"
