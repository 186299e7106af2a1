"""Read the records of Kafka topics, parse the rows in their values, and mark malformed records."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from skyband.connectors.envelope import DELETE, OP, UPSERT
from skyband.connectors.envelope_rows import CORRUPT, envelope_type, unwrapped
from skyband.connectors.kafka import RECORD_PARTS, KafkaSource, client_options
from skyband.connectors.kafka_values import SOURCE_OPTIONS
from skyband.connectors.source import InTasks
from skyband.connectors.sources import RECORD, WRONG
from skyband.errors import InvalidInputError, MissingDependencyError
from skyband.sharding.row_source import HIDDEN
from skyband.spark.expressions import quoted
from skyband.spark.wide_rows import only_narrow

if TYPE_CHECKING:
    from skyband.connectors.arrow.record_values import RecordFormat

__all__ = ["DONE", "LARGEST", "READ", "read_records", "reject_missing_connector", "rows_of"]

LARGEST = 1 << 20  # bytes of a value; the default maximum message size of a broker
DONE = f"{HIDDEN}done"  # whether tasks have read the value, which is then null
READ = f"{HIDDEN}read_"  # before the name of a column that tasks have read
_ROW = f"{HIDDEN}row"
_TEXT = f"{HIDDEN}text"


def read_records(
    spark: SparkSession, stream: KafkaSource, *, streaming: bool = True, at_once: bool = False, between: Any = None
) -> DataFrame:
    """Return the records of a stream's topics, from Spark's connector; `at_once`: all in one micro-batch.

    `between` are the offsets at which a batch begins and ends.
    """
    options: dict[str, Any] = {
        **client_options(stream.servers, stream.options),
        **{name: value for name, value in stream.options.items() if name.lower() in SOURCE_OPTIONS},
        **(_topics(stream) if between is None else {"subscribe": ",".join(between[1])}),
        **(_start(stream, streaming=streaming) if between is None else _between(*between)),
        "includeHeaders": True,
    }
    if stream.rows_per_batch is not None:
        options["maxOffsetsPerTrigger"] = stream.rows_per_batch
    if at_once or not streaming:
        options = {name: value for name, value in options.items() if name.lower() != "maxoffsetspertrigger"}
    reader: Any = spark.readStream if streaming else spark.read
    with reject_missing_connector():
        found: DataFrame = reader.format("kafka").options(**options).load()
        return found


def rows_of(
    records: DataFrame,
    stream: KafkaSource,
    name: str = "",
    form: RecordFormat | None = None,
    *,
    with_record: bool = False,
    in_tasks: InTasks = None,
) -> DataFrame:
    """Return the rows in the values of records, the requested parts of the record, and the problem of each.

    `form` is how values are decoded that are not text. A malformed row has nulls in the columns of its value.
    `in_tasks`: tasks read JSON that is usual, which is faster; "narrow": a wide record stops the stream.
    """
    value, text, size = sf.col("value"), sf.col(_TEXT), sf.octet_length("value")
    largest = stream.largest_value or LARGEST
    kept = [column.alias(f"kafka_{part}") for part, column in _parts(stream).items()]
    if with_record:
        kept.append(sf.struct("topic", "partition", "offset", "timestamp", "key", "value").alias(RECORD))
    if form is not None:
        return _decoded(records, stream, name, form, kept, largest)
    tombstones = stream.tombstones or ("ignore" if stream.envelope is not None else None)
    if tombstones == "ignore":
        records = records.where(value.isNotNull())
    own: dict[str, Column] = {}  # columns of values that tasks have read
    if in_tasks is not None and not with_record:
        records, own = _read_in_tasks(records, stream, kept, largest, in_tasks)
        kept = [sf.col(quoted(name)) for name in records.columns if name != "value"]
    done = sf.col(DONE) if own else sf.lit(False)
    # Validate once, and store the result in a column.
    checked = sf.when(size <= largest, sf.try_validate_utf8(value.cast("string")))
    records = records.select("value", checked.alias(_TEXT), *kept)
    unfit = (
        sf.when(text.isNotNull() | done, None)
        .when(value.isNull(), "the value is null")
        .when(size > largest, sf.format_string(f"the value has %d bytes, more than {largest}", size))
        .otherwise("the value is not valid UTF-8")
    )
    others = [sf.col(quoted(name)) for name in records.columns if name not in ("value", _TEXT)]
    if tombstones == "delete":
        unfit = sf.when(value.isNotNull(), unfit)
        others.insert(0, sf.when(value.isNull(), DELETE).otherwise(UPSERT).alias(OP))
    if stream.format == "text":
        return records.select(text.alias("value"), *others, unfit.alias(WRONG))
    found = records.select(
        _parsed(stream, text).alias(_ROW), *others, sf.coalesce(unfit, _trailing_text(stream)).alias(WRONG)
    )
    added = {"value", _TEXT, DONE, *own}
    row, names = sf.col(_ROW), [sf.col(quoted(name)) for name in records.columns if name not in added]
    names = [sf.col(OP), *names] if tombstones == "delete" else names
    misfit = f"the value is not a {_noun(stream)} that matches the schema"
    is_wrong, columns = row.isNull() | row[CORRUPT].isNotNull(), {name: row[name] for name in stream.schema or {}}
    if stream.envelope is not None:
        columns, is_wrong = unwrapped(row, stream.schema or {})
        misfit = "the value is not a Debezium envelope of a row that matches the schema"
    elif tombstones == "delete":
        is_wrong &= sf.col(OP) != DELETE
    if own:
        columns = {name: sf.when(done, own[READ + name]).otherwise(column) for name, column in columns.items()}
        is_wrong &= ~done
    wrong = sf.when(is_wrong, sf.coalesce(WRONG, sf.lit(misfit))).otherwise(sf.col(WRONG))
    return found.select(*(column.alias(name) for name, column in columns.items()), *names, wrong.alias(WRONG))


def _read_in_tasks(
    records: DataFrame, stream: KafkaSource, kept: list[Column], largest: int, in_tasks: InTasks
) -> tuple[DataFrame, dict[str, Column]]:
    """Return the records after tasks have read usual values, and the columns of those values, if tasks can do that."""
    from skyband.connectors.kafka_json import read_usual, reader_for  # loads kernels

    reader = reader_for(records.sparkSession, stream, largest)
    if reader is None:
        return records.select("value", *kept), {}
    records = records.select("value", *kept)
    found = read_usual(only_narrow(records) if in_tasks == "narrow" else records, reader)
    return found, {READ + name: sf.col(quoted(READ + name)) for name in reader.names}


def _decoded(
    records: DataFrame, stream: KafkaSource, name: str, form: RecordFormat, kept: list[Column], largest: int
) -> DataFrame:
    """Return the rows in values that are decoded with a schema."""
    from skyband.connectors.kafka_encoded import decoded_values, refuse_taken  # loads kernels

    value, size = sf.col("value"), sf.octet_length("value")
    unfit = sf.when(size > largest, sf.format_string(f"the value has %d bytes, more than {largest}", size))
    others = list(kept)
    if stream.tombstones == "delete":
        others.insert(0, sf.when(value.isNull(), DELETE).otherwise(UPSERT).alias(OP))
    elif stream.tombstones == "ignore":
        records = records.where(value.isNotNull())
    else:
        unfit = sf.when(value.isNull(), "the value is null").otherwise(unfit)
    others.append(unfit.alias(WRONG))
    added = [OP] if stream.tombstones == "delete" else []
    refuse_taken(name, form, [*added, *(f"kafka_{part}" for part in RECORD_PARTS)])
    return decoded_values(records, sf.when(size <= largest, value), others, form)


class reject_missing_connector:  # noqa: N801 - used like a function
    """Replace Spark's error about a missing Kafka connector with the command that installs it."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise MissingDependencyError if the connector is missing."""
        said = str(error)
        if error is not None and ("Failed to find data source: kafka" in said or "DATA_SOURCE_NOT_FOUND" in said):
            raise MissingDependencyError(
                "this Spark session has no Kafka connector. Fetch it once with: skyband jars, and create the session "
                "with skyband.spark.session(kafka=True), which adds it to the class path."
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
            "starting: latest skips all current records, so a batch would be empty; write earliest, a time or offsets."
        )
    if starting in ("earliest", "latest"):
        return {"startingOffsets": starting}
    at = datetime.fromisoformat(starting)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    # If no record is that new, start at the latest offset.
    return {"startingTimestamp": int(at.timestamp() * 1000), "startingOffsetsByTimestampStrategy": "latest"}


def _between(start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    return {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end), "failOnDataLoss": True}


def _parts(stream: KafkaSource) -> dict[str, Column]:
    """Return the parts of the record that become columns. Invalid UTF-8 becomes null: tasks cannot decode it."""
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
    shape = f"{shape}, {CORRUPT} string"
    if stream.envelope is not None:
        shape = envelope_type(stream.schema or {})
    given = {
        name: _spelled(value)
        for name, value in stream.options.items()
        if not name.startswith("kafka.") and name.lower() not in SOURCE_OPTIONS
    }
    options = {**given, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    return sf.from_csv(text, shape, options) if stream.format == "csv" else sf.from_json(text, shape, options)


def _trailing_text(stream: KafkaSource) -> Column:
    """Return the problem of values with text after the JSON object, which Spark's parser ignores."""
    text = sf.col(_TEXT)
    if stream.format != "json":
        return sf.lit(None).cast("string")
    # Fast path: most values end with a brace and contain one opening brace.
    nested = sf.contains(sf.ltrim(text, sf.lit("{")), sf.lit("{"))
    suspect = ~sf.endswith(text, sf.lit("}")) | (nested & sf.rlike(text, sf.lit(r"\}\s*\{")))
    alone = sf.json_array_length(sf.concat(sf.lit("["), text, sf.lit("]"))) == 1
    # Values that are not JSON are reported as not matching the schema.
    begins = sf.rlike(text, sf.lit(r"(?s)^\s*\{.*\}")) & ~sf.coalesce(alone, sf.lit(False))
    return sf.when(suspect & begins, "the value has text after its JSON object")


def _noun(stream: KafkaSource) -> str:
    return "CSV line" if stream.format == "csv" else "JSON object"


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
