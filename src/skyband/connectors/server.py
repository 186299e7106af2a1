"""What sinks that are servers have in common: an address, options of the client, and how long one that is gone is
waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field

from skyband.connectors.addresses import shown_address, with_absolute_files
from skyband.connectors.section import Wrong
from skyband.connectors.sink import SinkModel
from skyband.connectors.values import Gap, Scalar, Text
from skyband.durations import parse_duration

__all__ = ["ServerSink", "seconds"]

_PATIENCE = "60 seconds"


class ServerSink(SinkModel):
    """A sink somewhere else, which may refuse, or be gone for a while."""

    schemes: ClassVar[tuple[str, ...]] = ()  # what its addresses begin with

    url: Text | None = Field(
        default=None,
        repr=False,  # a password may have come into it from the environment
        description="Where the server is. A password in it must come from the environment.",
    )
    options: dict[str, Scalar] = Field(default={}, repr=False, description="Options of the client.")
    retry: Gap | None = Field(
        default=None,
        description="How long a server that is gone is waited for before the stream stops. Default 60 seconds.",
        examples=["5 minutes"],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """The address is one of such a server."""
        url = raw.get("url")
        if isinstance(url, str) and url.strip() and not url.startswith(cls.schemes):
            yield "url", f"{shown_address(url)!r} is no address of a {cls.kind()} server; write {cls.schemes[0]}host…"

    def settled(self, folder: Path) -> Self:
        """With the paths of certificates made absolute."""
        return self.model_copy(update={"options": with_absolute_files(self.options, folder)})

    @property
    def patience(self) -> float:
        """For how many seconds a server that is gone is waited for."""
        return seconds(self.retry or _PATIENCE)

    @property
    def address(self) -> str:
        """The address, as a page on the file says it."""
        return f" at {shown_address(self.url)}" if self.url else ""


def seconds(text: str) -> float:
    """The seconds of a duration.

    >>> seconds("2 minutes")
    120.0
    """
    return parse_duration(text, field="duration") / 1e6
