"""What a workload file may say: its sections and what each holds. The descriptions become the published schema.

The models of streams and sinks are in `skyband.connectors`, each beside what reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from skyband.connectors.files import FilesSource
from skyband.connectors.kafka import KafkaSource
from skyband.connectors.kinds import union
from skyband.connectors.rate import RateSource
from skyband.connectors.section import Section, Wrong, among
from skyband.connectors.socket import SocketSource
from skyband.connectors.source import SourceModel as Stream
from skyband.connectors.values import Count, Gap, Scalar, Text
from skyband.queries.families import FAMILIES
from skyband.sinks import Sink, Terminal
from skyband.workload_file.query_models import AnyQuery
from skyband.workload_file.values import LateRows, Memory

__all__ = [
    "ALGORITHMS",
    "WHOLE",
    "Document",
    "EngineSection",
    "FilesSource",
    "KafkaSource",
    "RateSource",
    "Sink",
    "SocketSource",
    "Stream",
    "algorithm_for",
    "plan_for",
    "types_of",
]

if TYPE_CHECKING:
    _AnyStream = Stream
    _AnySink = Sink
else:
    _AnyStream = union(Stream, "Stream")
    _AnySink = union(Sink, "Sink")
WHOLE = tuple(name for name, family in FAMILIES.items() if not family.supports("shards"))  # types in one part
ALGORITHMS = ("auto", *(name for family in FAMILIES.values() for name in family.algorithms()))


class EngineSection(Section):
    """How the queries are run."""

    other_names: ClassVar[Mapping[str, str]] = {"config": "settings", "conf": "settings", "state": "checkpoint"}

    algorithm: Text = Field(
        default="auto",
        description="auto, or a name that skyband algorithms lists; for uncertain queries a plan: greedy, dp, inco, in "
        "or none. It is for the streams whose queries it can run.",
    )
    late: LateRows = Field(
        default="count",
        description="What happens to rows behind the watermark of a stream that is followed. count: they are dropped, "
        "counted, and reported once they are more than 0.1% of all rows. refuse: a late row stops the stream. Limits: "
        "above the share warn they are reported while the stream runs, above the share fail it stops. --once reads all "
        "rows before a window is final, so none is late.",
        examples=["count", {"warn": "0.1%", "fail": "5%"}],
    )
    trigger: Gap | None = Field(
        default=None,
        description="How often a micro-batch begins. Default: as soon as the one before it has ended.",
        examples=["5 seconds"],
    )
    shards: Count | None = Field(
        default=None,
        le=1024,
        description="How many parts the state is cut into. Default: what suits the queries, at most 32.",
    )
    checkpoint: Text | None = Field(
        default=None,
        description="The folder of the state; each stream has a folder of its own in it. Relative to the folder of the "
        "workload file. Default .skyband/ and the file's name without its ending.",
        examples=[".skyband"],
    )
    master: Text | None = Field(
        default=None, description="Where Spark runs. Default local[*].", examples=["local[*]", "spark://host:7077"]
    )
    memory: Memory | None = Field(
        default=None, description="What Spark's driver may take. Default a quarter of the machine's, between 1g and 8g."
    )
    settings: dict[str, Scalar] = Field(
        default={},
        description="Settings of Spark by name; they win over all others.",
        examples=[{"spark.ui.enabled": True}],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """The algorithm is one that there is."""
        if isinstance(raw.get("algorithm"), str) and raw["algorithm"] not in ALGORITHMS:
            yield "algorithm", among(raw["algorithm"], ALGORITHMS)


class Document(Section):
    """A workload file: streams, queries over them, and where the answers go."""

    other_names: ClassVar[Mapping[str, str]] = {
        "stream": "streams",
        "query": "queries",
        "sink": "sinks",
        "sources": "streams",
        "spark": "engine",
    }
    missing: ClassVar[Mapping[str, str]] = {
        "streams": "name at least one stream, with its source or path",
        "queries": "ask at least one query",
    }

    streams: dict[str, _AnyStream] = Field(min_length=1, description="Streams by name; at least one.")
    queries: list[AnyQuery] = Field(min_length=1, description="Queries over the streams; at least one.")
    sinks: list[_AnySink] = Field(
        default=[Terminal()], min_length=1, description="Where answers go. Default: the terminal."
    )
    engine: EngineSection = Field(
        default=EngineSection(), description="How the queries are run; every key has a default."
    )


def types_of(algorithm: str) -> list[str]:
    """The types of queries that an algorithm is for.

    >>> types_of("mintopk"), types_of("dp")
    (['topk'], ['uncertain'])
    """
    return [kind for kind, family in FAMILIES.items() if algorithm in family.algorithms()]


def algorithm_for(kind: str, algorithm: str) -> str:
    """The algorithm for queries of a type: the file's, if it is for such, and else the best there is.

    >>> algorithm_for("uncertain", "dp"), algorithm_for("topk", "dp")
    ('dp', 'auto')
    """
    return algorithm if kind in types_of(algorithm) else "auto"


def plan_for(kind: str, algorithm: str) -> str | None:
    """The plan that an algorithm names, to be explained; None: queries of this type have none, or nobody named one.

    >>> plan_for("uncertain", "dp"), plan_for("uncertain", "auto"), plan_for("topk", "panes")
    ('dp', None, None)
    """
    return algorithm if FAMILIES[kind].supports("plan") and algorithm != "auto" else None
