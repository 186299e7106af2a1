"""The sinks of one stream, opened: what Spark is to call with its answers, and what is to be closed at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.errors import InvalidInputError, UnknownNameError, UnsupportedError, brief
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output
from skyband.spark.delivery import Folder, Opening, Sink, Wanted, open_servers, output_of, servers_among, write_to

__all__ = ["OpenedSinks"]


class OpenedSinks:
    """Sinks that are given the answers of a workload over a stream."""

    def __init__(self, sinks: Sequence[Sink], workload: Workload[Any], spark: SparkSession, stream: str) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise UnsupportedError(
                "sinks= are held by this process, and this session is one of Spark Connect, which would run them "
                "elsewhere; take a session of its own, or write with write=."
            )
        self._workload, self._stream = workload, stream
        opening = Opening(spark, stream, lambda: workload)
        self._wanted = [_opened(sink, opening) for sink in _checked(sinks, workload)]
        try:
            for server in servers_among(self._wanted):
                server.reach()  # before anything is written
        except BaseException:
            self.close()
            raise

    @property
    def output(self) -> Output:
        """What the pipeline must give to serve all of them."""
        return output_of(self._wanted)

    @property
    def folders(self) -> list[Folder]:
        """Those of them that write files."""
        return [one.outlet for one in self._wanted if isinstance(one.outlet, Folder)]

    def refuse_foreign_files(self, checkpoint: str) -> None:
        """Refuse folders that hold files of another run, which those of this one would be mixed with."""
        for folder in self.folders:
            if folder.files():
                raise InvalidInputError(
                    f"{str(folder.folder)!r} holds {folder.holds} of stream {self._stream!r} from another run, "
                    f"and {checkpoint!r} has no state to go on from; new files would be mixed with them. Give another "
                    "path or checkpoint, or remove them."
                )

    def write(self, out: DataFrame) -> DataStreamWriter:
        """The writer of the answers."""
        open_servers(self._wanted, self._workload, self.output, out)
        return out.writeStream.foreachBatch(write_to(self._wanted, self._workload, self.output)).queryName(self._stream)

    def stop_waiting(self) -> None:
        """Make no further attempt where a server is gone."""
        for server in servers_among(self._wanted):
            server.stop_waiting()

    def close(self) -> None:
        """Leave the servers."""
        for server in servers_among(self._wanted):
            server.close()


def _checked(sinks: Sequence[Sink], workload: Workload[Any]) -> Sequence[Sink]:
    """The sinks, if they are some, and take the answers of queries there are."""
    if not isinstance(sinks, Sequence) or not sinks:
        raise InvalidInputError(f"sinks={brief(sinks)} must be a list of sinks: sinks=[skyband.sinks.Parquet(path=…)].")
    names = [query.name for query in workload]
    for sink in sinks:
        if not isinstance(sink, Sink):
            raise InvalidInputError(f"sinks= holds {brief(sink)}, which is no sink; skyband.sinks has them.")
        for name in sink.queries or ():
            if name not in names:
                raise UnknownNameError.among(f"a sink of type {sink.type}: query", name, names)
    return sinks


def _opened(sink: Sink, opening: Opening) -> Wanted:
    outlet = sink.open(opening)
    if outlet is None:
        raise InvalidInputError(
            f"a sink of type {sink.type} is shown by skyband run, and by nothing else; use write=lambda out: "
            'out.writeStream.format("console"), or another sink.'
        )
    return Wanted(outlet, sink.output, sink.queries)
