"""Kafka's topics as streams: the records of a topic, the rows in their values, and what is wrong with some of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from skyband.connectors.kafka import KafkaSource, client_options
from skyband.connectors.sources import RECORD, WRONG
from skyband.errors import InvalidInputError, MissingDependencyError
from skyband.spark.expressions import HIDDEN, quoted

__all__ = ["LARGEST", "read_records", "refuse_missing_connector", "rows_of"]

LARGEST = 1 << 20  # bytes of a value; a broker takes no larger message unless it is told to
_ROW = f"{HIDDEN}row"
_TEXT = f"{HIDDEN}text"
_CORRUPT = f"{HIDDEN}corrupt"
# Options of Spark's source; whatever else is no client's goes to the parser of values.
_OF_THE_SOURCE = {
    "failondataloss",
    "groupidprefix",
    "minpartitions",
    "maxrecordsperpartition",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "kafkaconsumer.polltimeoutms",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "startingoffsetsbytimestampstrategy",
}


def read_records(
    spark: SparkSession, stream: KafkaSource, *, streaming: bool = True, at_once: bool = False
) -> DataFrame:
    """The records of a stream's topics, as Spark's connector gives them; `at_once`: all in one micro-batch."""
    options: dict[str, Any] = {
        **client_options(stream.servers, stream.options),
        **{name: value for name, value in stream.options.items() if name.lower() in _OF_THE_SOURCE},
        **_topics(stream),
        **_start(stream, streaming=streaming),
        "includeHeaders": True,
    }
    if stream.rows_per_batch is not None:
        options["maxOffsetsPerTrigger"] = stream.rows_per_batch
    if at_once or not streaming:
        options = {name: value for name, value in options.items() if name.lower() != "maxoffsetspertrigger"}
    reader: Any = spark.readStream if streaming else spark.read
    with refuse_missing_connector():
        found: DataFrame = reader.format("kafka").options(**options).load()
        return found


def rows_of(records: DataFrame, stream: KafkaSource, *, with_record: bool = False) -> DataFrame:
    """The rows in the records' values, the parts of the record that are asked for, and what is wrong, if anything is.

    A row with something wrong has nulls in the columns of its value.
    """
    value, text, size = sf.col("value"), sf.col(_TEXT), sf.octet_length("value")
    largest = stream.largest_value or LARGEST
    kept = [column.alias(f"kafka_{part}") for part, column in _parts(stream).items()]
    if with_record:
        kept.append(sf.struct("topic", "partition", "offset", "timestamp", "key", "value").alias(RECORD))
    # Checked once and given a name, so that what follows has it at hand.
    checked = sf.when(size <= largest, sf.try_validate_utf8(value.cast("string")))
    records = records.select("value", checked.alias(_TEXT), *kept)
    unfit = (
        sf.when(text.isNotNull(), None)
        .when(value.isNull(), "the value is null")
        .when(size > largest, sf.format_string(f"the value has %d bytes, more than {largest}", size))
        .otherwise("the value is no UTF-8")
    )
    others = [sf.col(quoted(name)) for name in records.columns if name not in ("value", _TEXT)]
    if stream.format == "text":
        return records.select(text.alias("value"), *others, unfit.alias(WRONG))
    found = records.select(_parsed(stream, text).alias(_ROW), *others, sf.coalesce(unfit, _unread(stream)).alias(WRONG))
    row = sf.col(_ROW)
    misfit = f"the value is no {_called(stream)} that fits the schema"
    wrong = sf.when(row.isNull() | row[_CORRUPT].isNotNull(), sf.coalesce(WRONG, sf.lit(misfit))).otherwise(
        sf.col(WRONG)
    )
    return found.select(*(row[name].alias(name) for name in stream.schema or {}), *others, wrong.alias(WRONG))


class refuse_missing_connector:  # noqa: N801 - reads as what it does
    """Where Spark does not know what Kafka is, say the one thing that helps."""

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Look at what went wrong."""
        said = str(error)
        if error is not None and ("Failed to find data source: kafka" in said or "DATA_SOURCE_NOT_FOUND" in said):
            raise MissingDependencyError(
                "this Spark session has no connector for Kafka. Fetch it once with: skyband jars, and take a session "
                "from skyband.spark.session(kafka=True), which puts it on the class path."
            ) from None


def _topics(stream: KafkaSource) -> dict[str, str]:
    if stream.topic_pattern is not None:
        return {"subscribePattern": stream.topic_pattern}
    return {"subscribe": ",".join(stream.topic or [])}


def _start(stream: KafkaSource, *, streaming: bool) -> dict[str, Any]:
    starting = stream.starting or "earliest"
    if isinstance(starting, dict):
        return {"startingOffsets": json.dumps(starting)}
    if starting == "latest" and not streaming:
        raise InvalidInputError(
            "starting: latest leaves nothing to read of what is there now; write earliest, a time or offsets."
        )
    if starting in ("earliest", "latest"):
        return {"startingOffsets": starting}
    at = datetime.fromisoformat(starting)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    # Where nothing is as new as that, there is nothing to read yet.
    return {"startingTimestamp": int(at.timestamp() * 1000), "startingOffsetsByTimestampStrategy": "latest"}


def _parts(stream: KafkaSource) -> dict[str, Column]:
    """The parts of the record that become columns. Text from outside is UTF-8 or null: tasks could not read it else."""
    wanted = {f"kafka_{part}" for part in stream.record or ()}
    wanted |= {name.lower() for name in (stream.time, stream.id) if name}
    known = {
        "key": sf.try_validate_utf8(sf.col("key").cast("string")),
        "headers": sf.transform(
            "headers",
            lambda header: sf.struct(
                header["key"].alias("key"), sf.try_validate_utf8(header["value"].cast("string")).alias("value")
            ),
        ),
        "topic": sf.col("topic"),
        "partition": sf.col("partition"),
        "offset": sf.col("offset"),
        "timestamp": sf.col("timestamp"),
    }
    return {part: column for part, column in known.items() if f"kafka_{part}" in wanted}


def _parsed(stream: KafkaSource, text: Column) -> Column:
    if stream.format == "text":
        return text
    shape = ", ".join(f"{quoted(name)} {kind}" for name, kind in (stream.schema or {}).items())
    shape = f"{shape}, {_CORRUPT} string"
    given = {
        name: _spelled(value)
        for name, value in stream.options.items()
        if not name.startswith("kafka.") and name.lower() not in _OF_THE_SOURCE
    }
    options = {**given, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return sf.from_csv(text, shape, options) if stream.format == "csv" else sf.from_json(text, shape, options)


def _unread(stream: KafkaSource) -> Column:
    """What a parser passes over in silence: it reads the first object of a value and looks no further."""
    text = sf.col(_TEXT)
    if stream.format != "json":
        return sf.lit(None).cast("string")
    # Most values end with a brace and have no second one that opens; they are not looked at any closer.
    nested = sf.contains(sf.ltrim(text, sf.lit("{")), sf.lit("{"))
    suspect = ~sf.endswith(text, sf.lit("}")) | (nested & sf.rlike(text, sf.lit(r"\}\s*\{")))
    alone = sf.json_array_length(sf.concat(sf.lit("["), text, sf.lit("]"))) == 1
    # What is no JSON at all is another matter.
    begins = sf.rlike(text, sf.lit(r"(?s)^\s*\{.*\}")) & ~sf.coalesce(alone, sf.lit(False))
    return sf.when(suspect & begins, "the value goes on after its JSON object")


def _called(stream: KafkaSource) -> str:
    return "line of CSV" if stream.format == "csv" else "JSON object"


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
