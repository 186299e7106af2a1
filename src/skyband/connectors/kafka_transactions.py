"""Writes answers to a topic in transactions: the messages of a micro-batch, and its number, are committed together.

The number is the offset of a consumer group that nothing else uses. A micro-batch that is repeated after a crash finds
its number, and is not sent again. Kafka's client is the one of Spark's connector, in the JVM of the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.table_writer import Committed, CommittedBatches, signature
from skyband.errors import InvalidInputError, MissingDependencyError, PipelineError, SkybandError, UnsupportedError
from skyband.queries import Query
from skyband.spark.spark_errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TransactionalTopic"]

MOST_QUERIES = 300  # their signatures must fit into the metadata of an offset, 4096 bytes
_DEFAULTS = {  # options of the client, in milliseconds
    "transaction.timeout.ms": "900000",  # the longest that brokers allow by default
    "default.api.timeout.ms": "30000",
    "max.block.ms": "60000",
}
_OF_PRODUCERS = ("transaction.", "max.block.ms", "delivery.", "linger.", "batch.size", "acks", "compression.")
_STOPPED = "The stream stopped; no answers are lost. Correct the problem and run it again."
Messages = Callable[[pa.Table], Sequence[tuple[str, str]]]


class TransactionalTopic(CommittedBatches):
    """Sends each answer as one message, exactly once. It is both a server and an output folder of `sharding.delivery`.

    Parameters
    ----------
    spark
        The session, whose JVM has Kafka's client.
    options
        The options of Kafka's client, without the prefix ``kafka.``.
    topic, stream, output
        Identify the sink among all that write to this cluster.
    messages
        Returns the keys and values of answers.
    queries
        The queries whose answers are sent.
    """

    holds = "answers"
    of_dead_letters = False
    first = 0
    when_fresh = "which sends all answers again; existing messages remain"

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, Any],
        topic: str,
        stream: str,
        output: str,
        messages: Messages,
        queries: Sequence[Query],
    ) -> None:
        self._jvm: Any = getattr(spark, "_jvm", None)
        if self._jvm is None:
            raise UnsupportedError(
                "delivery: exactly_once is not supported over Spark Connect, because Kafka's client runs in the "
                "driver. Remove the key; messages are then sent at least once."
            )
        self._options = {**_DEFAULTS, **{name: str(value) for name, value in options.items()}}
        self._topic, self._messages = topic, messages
        self._key = f"skyband-{topic}-{stream}-{output}"
        self.folder = Path(f"topic {topic}")
        self._producer: Any = None
        self._committed: Committed | None = None
        self.ask(queries)

    def __str__(self) -> str:
        return f"topic {self._topic!r}"

    def reach(self) -> None:
        """Connect to the cluster, and read what it stores about this stream."""
        self._committed = self._guarded(self._read_committed)

    def check(self, rows: pa.Table) -> None:
        """Nothing to check: a message has the columns of its answer."""

    def prepare(self, rows: pa.Table) -> None:
        """End what an earlier run left: its producer is rejected from now on, and its open transaction is aborted."""
        self._guarded(self._begin)

    def ask(self, queries: Sequence[Query]) -> None:
        """Set the queries whose answers follow."""
        if len(queries) > MOST_QUERIES:
            raise InvalidInputError(
                f"delivery: exactly_once supports at most {MOST_QUERIES} queries, and this sink has {len(queries)}. "
                "Name fewer of them under queries:, in several sinks, or remove the key."
            )
        self._queries = {query.name: signature(query) for query in queries}

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the answers of a micro-batch in one transaction, unless they are committed already."""
        if rows.num_rows:
            self._guarded(lambda: self._take(batch, rows))

    def clear(self) -> None:
        """Forget the numbers of micro-batches; messages cannot be removed."""
        self._guarded(self._clear)

    def stop_waiting(self) -> None:
        """Retries are up to Kafka's client."""

    def close(self) -> None:
        """Close the connection."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _take(self, batch: int, rows: pa.Table) -> None:
        self._begin()
        found = self._committed or Committed()
        if found.batch > batch:
            raise InvalidInputError(
                f"topic {self._topic!r} has the answers of micro-batch {found.batch} of this stream, but micro-batch "
                f"{batch} is sent now, so another run writes to the topic, or the state is an older copy. {_STOPPED}"
            )
        done = found.queries if found.batch == batch else frozenset[str]()
        if done:
            kept = [name for name, sign in self._queries.items() if sign not in done]
            rows = rows.filter(pc.is_in(rows["query"], pa.array(kept, pa.string())))
        sent = self._messages(rows) if rows.num_rows else []
        if sent:
            self._commit(sent, Committed(found.epoch, batch, done | frozenset(self._queries.values())))

    def _clear(self) -> None:
        self._begin()
        if self._committed is not None and self._committed.batch >= 0:
            self._commit([], Committed(self._committed.epoch + 1))

    def _begin(self) -> None:
        if self._producer is not None:
            return
        kafka, text = self._kafka(), self._kafka().common.serialization.StringSerializer
        options = {**self._options, "transactional.id": self._key, "enable.idempotence": "true"}
        producer = kafka.clients.producer.KafkaProducer(self._java_map(options), text(), text())
        try:
            producer.initTransactions()
            self._committed = self._read_committed()
        except BaseException:
            producer.close()
            raise
        self._producer = producer

    def _commit(self, sent: Sequence[tuple[str, str]], committed: Committed) -> None:
        kafka, producer = self._kafka(), self._producer
        record = kafka.clients.producer.ProducerRecord
        state = json.dumps({"epoch": committed.epoch, "queries": "".join(sorted(committed.queries))})
        place = kafka.common.TopicPartition(self._topic, 0)
        offset = kafka.clients.consumer.OffsetAndMetadata(committed.batch + 1, state)
        offsets = self._jvm.java.util.HashMap()
        offsets.put(place, offset)
        try:
            producer.beginTransaction()
            for key, value in sent:
                producer.send(record(self._topic, key, value))
            group = kafka.clients.consumer.ConsumerGroupMetadata(self._key)
            producer.sendOffsetsToTransaction(offsets, group)
            producer.commitTransaction()
        except BaseException:
            # Whether it was committed is unknown: the next attempt asks.
            self._producer = self._committed = None
            producer.close(self._jvm.java.time.Duration.ZERO)
            raise
        self._committed = committed

    def _read_committed(self) -> Committed:
        """Return what the cluster stores about this stream."""
        kafka = self._kafka()
        own = {name: value for name, value in self._options.items() if not name.startswith(_OF_PRODUCERS)}
        admin = kafka.clients.admin.AdminClient.create(self._java_map(own))
        try:
            stable = kafka.clients.admin.ListConsumerGroupOffsetsOptions().requireStable(True)
            found = admin.listConsumerGroupOffsets(self._key, stable).partitionsToOffsetAndMetadata().get()
            entry = found.get(kafka.common.TopicPartition(self._topic, 0))
        finally:
            admin.close()
        if entry is None:
            return Committed()
        state = json.loads(entry.metadata() or "{}")
        signs = str(state.get("queries", ""))
        return Committed(
            int(state.get("epoch", 0)),
            int(entry.offset()) - 1,
            frozenset(signs[at : at + 12] for at in range(0, len(signs), 12)),
        )

    def _kafka(self) -> Any:
        return self._jvm.org.apache.kafka

    def _java_map(self, options: Mapping[str, str]) -> Any:
        found = self._jvm.java.util.HashMap()
        for name, value in options.items():
            found.put(name, value)
        return found

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except SkybandError:
            raise
        except TypeError as error:
            if "JavaPackage" not in str(error):
                raise
            raise MissingDependencyError(
                "delivery: exactly_once needs Kafka's client, which this Spark session does not have. Fetch it once "
                "with: skyband jars, and create the session with skyband.spark.session(kafka=True)."
            ) from None
        except Exception as error:
            raise PipelineError(
                f"answers cannot be sent to topic {self._topic!r} in a transaction ({first_line(error)}). {_STOPPED}"
            ) from None
