"""Text of the first workload file."""

from __future__ import annotations

__all__ = ["DELTA", "FILES", "GROUPED", "INCOMPLETE", "KAFKA", "LEADERBOARD", "PLAIN", "RATE", "TAIL", "UNCERTAIN"]

_TOP = """\
# A Skyband workload file: streams, queries over them, and sinks for the answers.
# skyband run FILE runs it, skyband explain FILE shows the plan, skyband schema --keys lists all keys.
# ${{NAME}} and ${{NAME:-default}} in a value are replaced by an environment variable.

streams:
"""

_WATERMARK = """\
    # How much older than the newest row a row can be. Longer: fewer rows are late, but answers are emitted later.
{behind}\
    watermark: {watermark}
"""

_FILES = """\
  {stream}:
    source: files          # or kafka (records of a topic), rate (rows that Spark generates), socket (lines over TCP)
    # A file, a folder or a glob, relative to the folder of this file; also s3a://…, hdfs://…
    path: {path}
    format: {format}            # parquet, avro, csv or json (one object per line)
    # Options of Spark's reader.
    {options_key}{options}
    # Columns and types. Default: inferred from the files. Seen: {columns}
    # schema: {{ts: timestamp, price: double}}
    # JSON lines that are change events of Debezium, each with a row inside.
    # envelope: debezium
    # The maximum number of files in a micro-batch.
    # files_per_batch: 1
    # What reads the files: auto (Spark's tasks, with Arrow, where the answers are the same) or spark.
    # reader: spark
    # On a cluster: whether all its machines have the files and the checkpoint at the same paths.
    # shared: true
"""

_TABLE = """\
  {stream}:
    source: delta          # the rows of a Delta table
    # The folder of the table, relative to the folder of this file.
    path: {path}
    # Columns: {columns}
    # The version whose rows are read first; those of later versions follow. Default: the newest.
    # version: 0
    # A commit that deletes, updates or overwrites rows: stop, skip, or feed (rows are changes: op, op_number).
    # changed_rows: stop
    # The maximum number of files in a micro-batch.
    # files_per_batch: 1
"""

_TOPIC = """\
  {stream}:
    source: kafka          # the records of a topic
    # The brokers, and the topic: replace them by yours.
    servers: 127.0.0.1:9092
    topic: {stream}
    format: {format}
    # The schema of the values. Columns: {columns}
    schema_file: {path}
    # A schema registry. Values then begin with the number of their schema.
    # registry: https://${{REGISTRY_USER}}:${{REGISTRY_PASSWORD}}@registry.example.org
    # A folder for records that cannot be decoded, with the reasons.
    dead_letters: malformed
"""

_ROWS = (
    """\
    # Additional columns, computed in SQL.
    # columns: {{total: price * size}}
    # The column with the event time.{span}
    time: {time}
    # The format of the time, if it is not a timestamp: seconds, milliseconds, microseconds, or a pattern.
    {time_format}
"""
    + _WATERMARK
    + """\
    # Answers also before a window ends, at most every 10 seconds of event time; late rows that correct answers.
    # emit: provisional
    # provisional_every: 10 seconds
    # allowed_lateness: 5 minutes
    # Ties in score and time: the row with the larger id ranks first.
    {id}

queries:
"""
)

FILES = _TOP + _FILES + _ROWS
DELTA = _TOP + _TABLE + _ROWS
KAFKA = _TOP + _TOPIC + _ROWS

PLAIN = """\
  # The best rows of each window, over all rows.
  - name: best
    k: 10                  # number of rows in an answer
    # The length of a window: a duration, or a number of rows.
    size: {size}
    # The distance between windows, at most size. Default: size, so that windows do not overlap.
    slide: {slide}
    # {why}
    by: {by}
    # Rank only rows for which this condition is true.
    # where: price > 0
    order: desc            # asc: lowest scores first
    ties: row_number       # rank: include all rows with the k-th score
    # Further columns for rows with equal scores; one row per entity; scores that count half after a time.
    # then_by: [size desc, symbol asc]
    # distinct: symbol
    # half_life: 10 minutes
    # The column that names rows on the dashboard, in the terminal and in the read API; default: the id.
    # label: symbol
    # Of a query that is added to a stream with a state, in local runs: read files again for its past.
    # since: 7 days
    full_only: false       # true: only windows that start at or after the first row
    # Windows end at origin + i * slide.
    # origin: 2024-01-01T09:30:00+00:00
    # Days, weeks and months from local midnight; cumulative: windows that grow, as in "so far today".
    # zone: America/New_York
    # week_start: monday
    # cumulative: true
    # Sessions of each group instead of size and slide: they end after 30 minutes without a row, or at 8 hours.
    # gap: 30 minutes
    # max_length: 8 hours
"""

GROUPED = """\
  # The best rows of each window and each group.
  - name: best_per_group
    k: 3
    size: {size}
    slide: {slide}
    by: {by}
    partition_by: {group}
"""

LEADERBOARD = """\
  # A leaderboard: keys by their totals, counts, means, … The queries of a stream have one type, so remove the queries
  # above, or define the stream twice under different names.
  # - name: leaderboard
  #   sql: {sql}
"""

UNCERTAIN = """\
  # Rows that are true with a probability, in (0, 1]: the rows most likely to be among the best. Remove the queries
  # above, which are of another type, or define the stream twice.
  # - name: likely
  #   sql: {sql}
"""

INCOMPLETE = """\
  # Objects by their total over several streams that report them at different times. Replace the names of the streams,
  # and the bounds by the smallest and the largest value. Remove the queries above, or define the stream twice.
  # - name: reported
  #   sql: {sql}
"""

TAIL = """\
  # Other types of queries: aggregate (keys by their totals), incomplete, uncertain; skyband schema --keys lists them.
  # - type: aggregate
  # A query in SQL:
  # - name: in_sql
  #   sql: TOPK price * size, 5 BY symbol OVER 1 HOUR EVERY 5 MINUTES

sinks:
  - type: terminal         # shows answers as they arrive; parquet, jsonl and csv write files; kafka sends messages,
                           # postgres writes to a table, redis to sorted sets: skyband schema --keys lists their keys
  # - type: parquet
  #   path: answers        # a folder; or s3://bucket/answers, with options: {region: …} and retry: 60 seconds
  #   output: changes      # changes since the previous window; answers: every window in full
  #   queries: [best]      # only the answers of these queries
  #   writers: driver      # tasks: tasks of Spark write large answers, as a folder of files for each micro-batch

# engine:
#   algorithm: auto        # skyband algorithms lists them
#   late: count            # refuse: a late row stops the stream
#   trigger: 5 seconds     # interval between micro-batches; default: start when the previous one has ended
#   shards: 4              # number of shards of the state
#   checkpoint: .skyband   # folder for the state, from which the next run resumes
#   master: local[*]       # the Spark master
#   memory: 4g             # memory of Spark's driver
#   settings: {spark.sql.shuffle.partitions: 4}
"""  # words: allow

RATE = (
    _TOP.format()
    + """\
  numbers:
    source: rate           # rows that Spark generates: timestamp and value (0, 1, 2, …); or files, socket, kafka
    rows_per_second: 1000
    # Additional columns, computed in SQL.
    columns:
      score: pmod(hash(value), 10000)
      bucket: value % 4
    # The column with the event time.
    time: timestamp
"""
    + _WATERMARK.format(behind="", watermark="1 second")
    + """\
    # Ties in score and time: the row with the larger id ranks first.
    id: value

queries:
"""
    + PLAIN.format(
        size="10 seconds", slide="1 second", by="score", why="The score: any SQL expression over the columns."
    )
    + GROUPED.format(size="10 seconds", slide="1 second", by="score", group="bucket")
)
