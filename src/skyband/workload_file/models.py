"""What a workload file may say: one model for each section. The descriptions become the published schema."""

from __future__ import annotations

import warnings
from typing import Literal

from pydantic import Field

from skyband.workload_file.query_models import Query
from skyband.workload_file.section import Section
from skyband.workload_file.values import (
    Count,
    Gap,
    LateRows,
    Memory,
    Part,
    Scalar,
    Servers,
    SqlType,
    Starting,
    Text,
    Topic,
    Topics,
)

__all__ = ["Document", "Engine", "Format", "Sink", "Source", "Stream"]

Source = Literal["files", "rate", "socket", "kafka"]
Format = Literal["parquet", "csv", "json", "text"]


with warnings.catch_warnings():
    # The key is called `schema` in the file, so the field is, too; what it hides is a method pydantic has given up.
    warnings.filterwarnings("ignore", message='Field name "schema"')

    class Stream(Section):
        """Where rows come from, and which column has their time."""

        source: Source = Field(
            default="files",
            description="Where rows come from: files in a folder, rows that Spark makes up (rate), lines of a TCP "
            "connection (socket), or the records of Kafka topics (kafka).",
        )
        format: Format | None = Field(
            default=None,
            description="How rows are written. For files the default is told by the path's ending; for a socket it is "
            "csv or json, a line a row, and needed; for Kafka it is what a record's value holds: json (an object), csv "
            "(a line) or text (one column named value), and needed.",
        )
        path: Text | None = Field(
            default=None,
            description="Files: a file, a folder or a glob. Relative to the folder of the workload file; with a scheme "
            "(s3a://, hdfs://, file:/) it is taken as it is.",
            examples=["trades.csv", "trades/*.parquet", "s3a://bucket/trades"],
        )
        options: dict[str, Scalar] = Field(
            default={},
            repr=False,  # secrets may be among them
            description="Options of Spark's reader, passed on as they are. For csv files header is true unless said "
            "otherwise, and sep is a tab if the path ends in .tsv. For Kafka those that begin with kafka. go to its "
            "client; a secret among them must come from the environment.",
            examples=[{"header": True, "sep": ";"}, {"kafka.security.protocol": "SSL"}],
        )
        schema: dict[str, SqlType] | None = Field(  # type: ignore[assignment]  # see above
            None,
            min_length=1,
            description="Columns and their Spark SQL types. Left out, files are looked at; a socket needs it, and so "
            "does Kafka unless its format is text.",
            examples=[{"ts": "timestamp", "price": "double"}],
        )
        host: Text | None = Field(
            default=None, description="Socket: the machine to connect to.", examples=["127.0.0.1", "localhost"]
        )
        port: Count | None = Field(
            default=None, le=65535, description="Socket: the port to connect to.", examples=[9999]
        )
        rows_per_second: Count | None = Field(
            default=None,
            description="Rate: how many rows Spark makes up each second; columns are timestamp and value. Default 1.",
            examples=[1000],
        )
        files_per_batch: Count | None = Field(
            default=None, description="Files: how many files a micro-batch takes at most. Default: all there are."
        )
        servers: Servers | None = Field(
            default=None,
            description="Kafka: the brokers to ask first, each as host:port; text with commas or a list.",
            examples=["127.0.0.1:9092", ["one:9092", "two:9092"]],
        )
        topic: Topics | None = Field(
            default=None, description="Kafka: the topic to read, or a list of them.", examples=["trades", ["a", "b"]]
        )
        topic_pattern: Text | None = Field(
            default=None,
            description="Kafka: a regular expression of Java's, instead of topic; topics that appear later are read "
            "too.",
            examples=["trades-.*"],
        )
        starting: Starting | None = Field(
            default=None,
            description="Kafka: where a run without state begins: earliest, latest, a time (records at or after it), "
            "or an offset for each partition of each topic. Default earliest.",
            examples=["latest", "2024-01-01T09:30:00+00:00", {"trades": {"0": 1200, "1": 1100}}],
        )
        rows_per_batch: Count | None = Field(
            default=None,
            description="Kafka: how many records a micro-batch takes at most. Default: all there are.",
            examples=[1000000],
        )
        record: list[Part] | None = Field(
            default=None,
            min_length=1,
            description="Kafka: what of the record becomes a column beside those of its value; each is named kafka_ "
            "and the word. One that time or id names need not be listed.",
            examples=[["key", "offset"]],
        )
        largest_value: Count | None = Field(
            default=None,
            le=2**30,
            description="Kafka: how many bytes a record's value may have; a larger one is malformed. Default 1048576.",
        )
        dead_letters: Text | None = Field(
            default=None,
            description="Files and Kafka: a folder for malformed rows and records, with the reason, as lines of JSON. "
            "Relative to the folder of the workload file.",
            examples=["malformed"],
        )
        dead_letter_topic: Topic | None = Field(
            default=None,
            description="Kafka: a topic of the same servers for malformed records: key and value as they were, the "
            "reason and the place in headers.",
            examples=["trades-malformed"],
        )
        columns: dict[str, Text] = Field(
            default={},
            description="Further columns, each an SQL expression over those before it; computed before anything else.",
            examples=[{"value": "price * size"}],
        )
        time: Text | None = Field(
            default=None,
            description="The column with the event time. A rate source's is timestamp; that of a Kafka record itself "
            "is kafka_timestamp.",
            examples=["ts"],
        )
        time_format: Text | None = Field(
            default=None,
            description="How to read a time column that is no timestamp: seconds, milliseconds or microseconds since "
            "1970, or a Spark pattern.",
            examples=["seconds", "milliseconds", "microseconds", "yyyy-MM-dd HH:mm:ss"],
        )
        watermark: Gap = Field(
            default="10 seconds",
            description="How far behind the newest row a row may come. What comes later is late: left out and counted.",
            examples=["10 seconds", "0 seconds"],
        )
        id: Text | None = Field(
            default=None,
            description="The column that breaks ties: of equal score and time, the larger id is the better row.",
        )


class Sink(Section):
    """Where answers go."""

    type: Literal["terminal", "parquet", "jsonl", "csv", "memory", "kafka", "postgres", "redis"] = Field(
        description="terminal shows answers as they come; parquet, jsonl and csv write files; memory keeps them for "
        "the program that runs the file; kafka sends a message for each answer to a topic; postgres writes to a table, "
        "redis to sorted sets."
    )
    path: Text | None = Field(
        default=None,
        description="The folder for parquet, jsonl and csv, which need one. Relative to the folder of the workload "
        "file.",
        examples=["answers"],
    )
    formulas: Literal["keep", "quote"] | None = Field(
        default=None,
        description="Csv: what happens to text that a spreadsheet would run as a formula, because it begins with =, +, "
        "-, @, a tab or a carriage return. keep: it is written as it is. quote: an apostrophe is put before it. "
        "Default keep.",
    )
    servers: Servers | None = Field(
        default=None,
        description="Kafka: the brokers to ask first, each as host:port; text with commas or a list.",
        examples=["127.0.0.1:9092"],
    )
    topic: Topic | None = Field(default=None, description="Kafka: the topic to write to.", examples=["answers"])
    output: Literal["answers", "changes"] = Field(
        default="answers",
        description="answers: every window in full. changes: what came, went and moved since the window before; for "
        "queries of type topk.",
    )
    queries: list[Text] | None = Field(
        default=None, min_length=1, description="Only the answers of these queries. Default: all.", examples=[["big"]]
    )
    url: Text | None = Field(
        default=None,
        repr=False,  # a password may have come into it from the environment
        description="Postgres and redis: where the server is. A password in it must come from the environment. "
        "Postgres: what is left out is what libpq's variables say (PGHOST, PGUSER, PGPASSWORD, …).",
        examples=["postgresql://me@db.example/sales", "rediss://cache.example:6379/0"],
    )
    options: dict[str, Scalar] = Field(
        default={},
        repr=False,
        description="Postgres: connection parameters of libpq, such as sslmode and sslrootcert. Redis: arguments of "
        "redis-py's client. Kafka: options of its client, which begin with kafka. and are passed on. A secret among "
        "them must come from the environment.",
        examples=[
            {"sslmode": "verify-full", "sslrootcert": "ca.pem"},
            {"ssl_ca_certs": "ca.pem"},
            {"kafka.security.protocol": "SSL", "kafka.compression.type": "zstd"},
        ],
    )
    retry: Gap | None = Field(
        default=None,
        description="Postgres and redis: how long a server that is gone is waited for before the stream stops. "
        "Default 60 seconds.",
        examples=["5 minutes"],
    )
    table: Text | None = Field(
        default=None,
        description="Postgres: the table, with its schema before a dot if it is not in the search path; {stream} "
        "stands for the stream's name. It is made if it is not there.",
        examples=["answers", "sales.{stream}"],
    )
    history: Literal["all", "newest"] | None = Field(
        default=None,
        description="Postgres: keep all answers, or only those of each query's newest window. Default all.",
    )
    prefix: Text | None = Field(
        default=None,
        description="Redis: what the names of keys begin with. Default skyband.",
        examples=["skyband", "shop:best"],
    )
    member: Text | None = Field(
        default=None,
        description="Redis: the column that members of the sorted sets are. Default: the whole row, as JSON.",
        examples=["trade_id"],
    )
    sort: Literal["score", "rank"] | None = Field(
        default=None,
        description="Redis: what members are scored by: the row's score, or its place in the answer. Default score.",
    )
    expire: Gap | None = Field(
        default=None,
        description="Redis: how long an answer stays when no newer one comes. Default: for ever.",
        examples=["1 hour"],
    )


class Engine(Section):
    """How the queries are run."""

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


class Document(Section):
    """A workload file: streams, queries over them, and where the answers go."""

    streams: dict[str, Stream] = Field(min_length=1, description="Streams by name; at least one.")
    queries: list[Query] = Field(min_length=1, description="Queries over the streams; at least one.")
    sinks: list[Sink] = Field(
        default=[Sink(type="terminal")], min_length=1, description="Where answers go. Default: the terminal."
    )
    engine: Engine = Field(default=Engine(), description="How the queries are run; every key has a default.")
