"""Dead letters: malformed records and rows are written with the reason to a folder or a topic; the stream continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skyband.connectors.dead_folder import LetterFolder
from skyband.connectors.kafka import KafkaSource, client_options
from skyband.connectors.kafka_records import LARGEST
from skyband.connectors.source import SourceModel

__all__ = ["DeadFolder", "DeadTopic", "bury_in", "dead_places"]

MOST_SENT = 900_000  # bytes of a value; value and headers must fit into a message
MOST_KEY = 65_536


class DeadFolder(LetterFolder):
    """Writes one folder per micro-batch with malformed records. Spark tasks write it."""

    def take(self, letters: DataFrame, batch: int) -> None:
        """Write or replace the dead letters of a micro-batch as JSON lines."""
        with self.replaced(batch) as unfinished:
            columns = self._of_files() if "file" in letters.columns else self._of_topics()
            letters.select(*columns).write.json(unfinished.absolute().as_uri())

    def _of_files(self) -> list[Column]:
        return [
            sf.lit(self.stream).alias("stream"),
            *(sf.col(name) for name in ("reason", "file", "row")),
            sf.octet_length("value").alias("size"),
            sf.substring("value", 1, self.largest).alias("value"),
        ]

    def _of_topics(self) -> list[Column]:
        value = sf.substring("value", 1, self.largest)
        text = value.cast("string")
        return [
            sf.lit(self.stream).alias("stream"),
            sf.col("reason"),
            *(sf.col(name) for name in ("topic", "partition", "offset", "timestamp")),
            sf.try_validate_utf8(sf.substring("key", 1, MOST_KEY).cast("string")).alias("key"),
            sf.octet_length("value").alias("size"),
            sf.try_validate_utf8(text).alias("value"),
            sf.when(~sf.is_valid_utf8(text), sf.base64(value)).alias("base64"),
        ]


class DeadTopic:
    """Sends malformed records to a topic: original key and value, the rest in headers. Delivers at least once."""

    def __init__(self, stream: KafkaSource, name: str) -> None:
        self._name, self._topic = name, str(stream.dead_letter_topic)
        self._options: dict[str, Any] = client_options(stream.servers, stream.options)

    def take(self, letters: DataFrame, batch: int) -> None:
        """Send the dead letters of a micro-batch."""
        values = {
            "stream": sf.lit(self._name),
            "size": sf.octet_length("value"),
            **{name: sf.col(name) for name in ("reason", "topic", "partition", "offset", "timestamp")},
        }
        headers = [
            sf.struct(sf.lit(f"skyband.{name}").alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in sorted(values.items())
        ]
        letters.select(
            sf.when(sf.octet_length("key") <= MOST_KEY, sf.col("key")).alias("key"),
            sf.substring("value", 1, MOST_SENT).alias("value"),
            sf.array(*headers).alias("headers"),
        ).write.format("kafka").options(**self._options, topic=self._topic, includeHeaders=True).save()


def dead_places(name: str, stream: SourceModel) -> list[DeadFolder | DeadTopic]:
    """Return the destinations of a stream's malformed records; empty if none is configured."""
    found: list[DeadFolder | DeadTopic] = []
    of_topics = stream if isinstance(stream, KafkaSource) else None
    if stream.dead_letter_folder is not None:
        largest = None if of_topics is None else of_topics.largest_value
        found.append(DeadFolder(stream.dead_letter_folder, name, largest or LARGEST))
    if of_topics is not None and of_topics.dead_letter_topic is not None:
        found.append(DeadTopic(of_topics, name))
    return found


def bury_in(places: Sequence[DeadFolder | DeadTopic]) -> Callable[[DataFrame, int], None]:
    """Return the function that Spark calls with each micro-batch of malformed records."""

    def take(letters: DataFrame, batch: int) -> None:
        kept = letters.persist() if len(places) > 1 else letters  # otherwise each destination reads the source again
        try:
            for place in places:
                place.take(kept, batch)
        finally:
            if len(places) > 1:
                kept.unpersist()

    return take
