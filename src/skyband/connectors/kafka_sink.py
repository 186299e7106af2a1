"""Answers as messages of a topic: one for each answer, under the name of its query and group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skyband.connectors.kafka import client_options, refuse_missing_connector
from skyband.data.json_lines import json_rows
from skyband.errors import PipelineError
from skyband.queries.workload import Workload
from skyband.spark.spark_errors import first_line
from skyband.workload_file import Sink

__all__ = ["TopicSink", "messages"]


class TopicSink:
    """Sends each answer as one message. A micro-batch that is run again sends the same messages again.

    What is asked may change while it runs, so `asked` tells the queries each time.
    """

    def __init__(self, spark: SparkSession, sink: Sink, asked: Callable[[], Workload[Any]]) -> None:
        self._spark = spark
        self._options: dict[str, Any] = {**client_options(sink.servers, sink.options), "topic": str(sink.topic)}
        self._asked = asked

    def take(self, batch: int, rows: pa.Table) -> None:
        """Send the answers of a micro-batch, in one task: messages of a key stay in the order of their windows."""
        if not rows.num_rows:
            return
        keys, values = zip(*messages(rows, {query.name: query.groups for query in self._asked()}), strict=True)
        table = pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})
        frame = self._spark.createDataFrame(table).coalesce(1)
        try:
            with refuse_missing_connector():
                frame.write.format("kafka").options(**self._options).save()
        except Exception as error:
            raise PipelineError(
                f"answers cannot be sent to topic {self._options['topic']!r} ({first_line(error)}); the stream stops, "
                "and nothing is lost: once the topic takes messages, run it again."
            ) from None


def messages(rows: pa.Table, groups: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Key and value of each message, both JSON; the rows of an answer are next to each other.

    >>> rows = pa.table({"query": ["best", "best"], "window_start": [0, 0], "window_end": [10, 10], "rank": [1, 2],
    ...                  "score": [7.5, 5.0]})
    >>> for key, value in messages(rows, {"best": ()}):
    ...     print(key, value)
    {"query": "best"} {"query": "best", "window_start": 0, "window_end": 10, "rows": [{"rank": 1, "score": 7.5}, ...]}
    """
    spelled = {name.lower(): name for name in rows.column_names}
    named = {query: [spelled.get(group.lower(), group) for group in of] for query, of in groups.items()}
    bounds = [name for name in ("window_start", "window_end", "time") if name in rows.column_names][:2]

    def answer_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["query"], *(row[name] for name in (*named[row["query"]], *bounds)))

    for _, answer in groupby(json_rows(rows), key=answer_of):
        mine = list(answer)
        query = mine[0]["query"]
        key = {name: mine[0][name] for name in ("query", *named[query])}
        told = {**key, **{name: mine[0][name] for name in bounds}}
        each = [{name: value for name, value in row.items() if name not in told} for row in mine]
        yield _json(key), _json({**told, "rows": each})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
