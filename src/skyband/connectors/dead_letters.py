"""Dead letters: malformed records and rows are written with the reason to a folder or a topic; the stream continues."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skyband.connectors.kafka import KafkaSource, client_options
from skyband.connectors.kafka_records import LARGEST
from skyband.connectors.source import SourceModel
from skyband.errors import InvalidInputError

__all__ = ["DeadFolder", "DeadTopic", "bury_in", "dead_places"]

MOST_SENT = 900_000  # bytes of a value; value and headers must fit into a message
MOST_KEY = 65_536


class DeadFolder:
    """Writes one folder per micro-batch with malformed records. It appears atomically; a repeated batch replaces it."""

    holds = "dead letters"
    of_dead_letters = True

    def __init__(self, folder: str, stream: str, largest: int) -> None:
        self.folder = Path(folder)
        self._stream, self._largest = stream, largest

    def take(self, letters: DataFrame, batch: int) -> None:
        """Write or replace the dead letters of a micro-batch as JSON lines. Spark tasks write them."""
        path = self.folder / f"{self._stream}-{batch:08}"
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            of_files = "file" in letters.columns
            letters.select(*(self._of_files() if of_files else self._of_topics())).write.json(
                unfinished.absolute().as_uri()
            )
            shutil.rmtree(path, ignore_errors=True)
            if any(part.stat().st_size for part in unfinished.glob("part-*")):
                os.replace(unfinished, path)
        except OSError as error:
            raise InvalidInputError(
                f"dead letters cannot be written to {str(path)!r} ({error.strerror or error}). The stream stopped; no "
                "data is lost. Make the folder writable and run it again."
            ) from error
        finally:
            with suppress(OSError):
                shutil.rmtree(unfinished, ignore_errors=True)

    def files(self) -> list[Path]:
        """Return the folders that this stream has written."""
        return sorted(path for path in self.folder.glob(f"{self._stream}-{'[0-9]' * 8}") if path.is_dir())

    def clear(self) -> None:
        """Remove the folders that this stream has written."""
        for path in self.files():
            shutil.rmtree(path)

    def _of_files(self) -> list[Column]:
        return [
            sf.lit(self._stream).alias("stream"),
            *(sf.col(name) for name in ("reason", "file", "row")),
            sf.octet_length("value").alias("size"),
            sf.substring("value", 1, self._largest).alias("value"),
        ]

    def _of_topics(self) -> list[Column]:
        value = sf.substring("value", 1, self._largest)
        text = value.cast("string")
        return [
            sf.lit(self._stream).alias("stream"),
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
