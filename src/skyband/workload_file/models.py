"""Models of a workload file and its engine section. The descriptions are part of the published schema.

The models of streams and sinks are in `skyband.connectors`, beside their readers and writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from skyband.connectors.delta_source import DeltaSource
from skyband.connectors.files import FilesSource
from skyband.connectors.iceberg_source import IcebergSource
from skyband.connectors.kafka import KafkaSource
from skyband.connectors.kinds import union
from skyband.connectors.rate import RateSource
from skyband.connectors.section import Section, Wrong, among
from skyband.connectors.socket import SocketSource
from skyband.connectors.source import SourceModel as Stream
from skyband.connectors.table_source import TableSource
from skyband.connectors.values import Count, Gap, Scalar, Text
from skyband.queries.families import FAMILIES
from skyband.queries.workload import Workload
from skyband.sinks import Sink, Terminal
from skyband.workload_file.query_models import AnyQuery
from skyband.workload_file.values import LateRows, Memory

__all__ = [
    "ALGORITHMS",
    "DeltaSource",
    "Document",
    "EngineSection",
    "FilesSource",
    "IcebergSource",
    "KafkaSource",
    "RateSource",
    "Sink",
    "SocketSource",
    "Stream",
    "TableSource",
    "algorithm_for",
    "has_one_shard",
    "plan_for",
    "types_of",
]

if TYPE_CHECKING:
    _AnyStream = Stream
    _AnySink = Sink
else:
    _AnyStream = union(Stream, "Stream")
    _AnySink = union(Sink, "Sink")
ALGORITHMS = ("auto", *(name for family in FAMILIES.values() for name in family.algorithms()))


class EngineSection(Section):
    """Settings of the job."""

    other_names: ClassVar[Mapping[str, str]] = {"config": "settings", "conf": "settings", "state": "checkpoint"}

    algorithm: Text = Field(
        default="auto",
        description="auto, or a name from `skyband algorithms`; for uncertain queries a plan: dp, greedy, inco, in or "
        "none. It applies to streams whose queries it supports; others use auto.",
    )
    late: LateRows = Field(
        default="count",
        description="What happens to rows behind the watermark. count: they are dropped and counted, and a warning is "
        "logged if they exceed 0.1% of all rows. "
        "refuse: a late row stops the stream. "  # words: allow
        "Limits: above the share warn a warning is logged, above the share fail the stream stops. With --once no row "
        "is late, because all rows are read before a window is emitted.",
        examples=["count", {"warn": "0.1%", "fail": "5%"}],
    )
    trigger: Gap | None = Field(
        default=None,
        description="The interval between micro-batches. Default: each starts when the previous one has ended.",
        examples=["5 seconds"],
    )
    shards: Count | None = Field(
        default=None,
        le=1024,
        description="The number of shards of the state. Default: chosen for the queries, at most 32.",
    )
    checkpoint: Text | None = Field(
        default=None,
        description="The folder for the state, with one subfolder per stream. Relative to the folder of the workload "
        "file. Default: .skyband/ and the file's name without its suffix.",
        examples=[".skyband"],
    )
    master: Text | None = Field(
        default=None, description="The Spark master. Default: local[*].", examples=["local[*]", "spark://host:7077"]
    )
    memory: Memory | None = Field(
        default=None,
        description="Memory of Spark's driver. Default: a quarter of the machine's memory, between 1g and 8g.",
    )
    settings: dict[str, Scalar] = Field(
        default={},
        description="Spark settings by name. They override all others.",
        examples=[{"spark.ui.enabled": True}],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check that the algorithm exists."""
        if isinstance(raw.get("algorithm"), str) and raw["algorithm"] not in ALGORITHMS:
            yield "algorithm", among(raw["algorithm"], ALGORITHMS)


class Document(Section):
    """A workload file: streams, queries over them, and sinks for the answers."""

    other_names: ClassVar[Mapping[str, str]] = {
        "stream": "streams",
        "query": "queries",
        "sink": "sinks",
        "sources": "streams",
        "spark": "engine",
    }
    missing: ClassVar[Mapping[str, str]] = {
        "streams": "define at least one stream, with its source or path",
        "queries": "define at least one query",
    }

    streams: dict[str, _AnyStream] = Field(min_length=1, description="Streams by name; at least one.")
    queries: list[AnyQuery] = Field(min_length=1, description="Queries over the streams; at least one.")
    sinks: list[_AnySink] = Field(
        default=[Terminal()], min_length=1, description="The outputs for answers. Default: the terminal."
    )
    engine: EngineSection = Field(default=EngineSection(), description="Settings of the job. All keys are optional.")


def types_of(algorithm: str) -> list[str]:
    """Return the query types that an algorithm supports.

    >>> types_of("mintopk"), types_of("dp")
    (['topk'], ['uncertain'])
    """
    return [kind for kind, family in FAMILIES.items() if algorithm in family.algorithms()]


def has_one_shard(workload: Workload[Any]) -> bool:
    """Return whether the rows of a workload cannot be distributed over shards.

    >>> import skyband as sb
    >>> has_one_shard(sb.Workload(sb.UncertainTopK(k=1, size=9))), has_one_shard(sb.Workload(sb.TopK(k=1, size=9)))
    (True, False)
    """
    together = workload.axis == "count" or not all(query.groups for query in workload)
    return FAMILIES[workload.family].whole_groups and together


def algorithm_for(kind: str, algorithm: str) -> str:
    """Return the algorithm for queries of a type: the given one if it supports the type, else ``auto``.

    >>> algorithm_for("uncertain", "dp"), algorithm_for("topk", "dp")
    ('dp', 'auto')
    """
    return algorithm if kind in types_of(algorithm) else "auto"


def plan_for(kind: str, algorithm: str) -> str | None:
    """Return the plan that an algorithm names; None if the type has no plans, or for ``auto``.

    >>> plan_for("uncertain", "dp"), plan_for("uncertain", "auto"), plan_for("topk", "panes")
    ('dp', None, None)
    """
    return algorithm if FAMILIES[kind].supports("plan") and algorithm != "auto" else None
