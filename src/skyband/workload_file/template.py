"""The words of the first workload file."""

from __future__ import annotations

__all__ = ["FILES", "GROUPED", "PLAIN", "RATE", "TAIL"]

_TOP = """\
# A workload file of Skyband: streams, queries over them, and where the answers go.
# skyband run FILE runs it, skyband explain FILE says how, skyband schema --keys lists all keys.
# ${{NAME}} and ${{NAME:-default}} in a value stand for an environment variable.

streams:
"""

_WATERMARK = """\
    # How far behind the newest row a row may come. Longer: fewer rows are late, answers come later.
{behind}\
    watermark: {watermark}
"""

FILES = (
    _TOP
    + """\
  {stream}:
    source: files          # or kafka (records of a topic), rate (rows that Spark makes up), socket (lines over TCP)
    # A file, a folder or a glob, relative to the folder of this file; also s3a://…, hdfs://…
    path: {path}
    format: {format}            # parquet, csv or json (an object a line)
    # Options of Spark's reader.
    {options_key}{options}
    # Columns and types; left out, they are read from the files. Seen: {columns}
    # schema: {{ts: timestamp, price: double}}
    # At most so many files go into one micro-batch.
    # files_per_batch: 1
    # Further columns, computed in SQL before anything else.
    # columns: {{total: price * size}}
    # The column with the event time.{span}
    time: {time}
    # How the time is written, if it is no timestamp: seconds, milliseconds, microseconds, or a pattern.
    {time_format}
"""
    + _WATERMARK
    + """\
    # Of equal score and time, the row with the larger id is the better one.
    {id}

queries:
"""
)

PLAIN = """\
  # The best rows of each window, over all rows.
  - name: best
    k: 10                  # how many rows an answer ranks
    # How long a window is: a duration, or a whole number for so many rows.
    size: {size}
    # How far apart windows end; not longer than size. Left out: windows that do not overlap.
    slide: {slide}
    # {why}
    by: {by}
    # Only rows for which this is true.
    # where: price > 0
    order: desc            # asc: lower scores first
    ties: row_number       # rank: all rows that equal the k-th are in
    full_only: false       # true: only windows that begin at or after the first row
    # Windows end at origin + i * slide.
    # origin: 2024-01-01T09:30:00+00:00
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

TAIL = """\
  # Other types of queries: aggregate (keys by their totals), incomplete, uncertain; skyband schema --keys lists them.
  # - type: aggregate
  # The same can be said in SQL:
  # - name: in_sql
  #   sql: TOPK price * size, 5 BY symbol OVER 1 HOUR EVERY 5 MINUTES

sinks:
  - type: terminal         # shows answers as they come; parquet, jsonl and csv write files; kafka sends messages,
                           # postgres writes to a table, redis to sorted sets: skyband schema --keys lists their keys
  # - type: parquet
  #   path: answers        # a folder
  #   output: changes      # what changed since the window before; answers: every window in full
  #   queries: [best]      # only the answers of these queries

# engine:
#   algorithm: auto        # skyband algorithms lists them
#   late: count            # refuse: a late row stops the stream
#   trigger: 5 seconds     # how often a micro-batch begins; left out: as soon as the one before it has ended
#   shards: 4              # how many parts the state is cut into
#   checkpoint: .skyband   # where the state is kept, so that a run can be taken up again
#   master: local[*]       # where Spark runs
#   memory: 4g             # what Spark may take
#   settings: {spark.sql.shuffle.partitions: 4}
"""

RATE = (
    _TOP.format()
    + """\
  numbers:
    source: rate           # rows that Spark makes up: timestamp and value (0, 1, 2, …); or files, socket, kafka
    rows_per_second: 1000
    # Further columns, computed in SQL before anything else.
    columns:
      score: pmod(hash(value), 10000)
      bucket: value % 4
    # The column with the event time.
    time: timestamp
"""
    + _WATERMARK.format(behind="", watermark="1 second")
    + """\
    # Of equal score and time, the row with the larger id is the better one.
    id: value

queries:
"""
    + PLAIN.format(
        size="10 seconds", slide="1 second", by="score", why="The score: any SQL expression over the columns."
    )
    + GROUPED.format(size="10 seconds", slide="1 second", by="score", group="bucket")
)
