"""Data as newcomers have it: compressed, with tabs, in parts, in folders by date; each with what a reader must find."""

from __future__ import annotations

import gzip
import json
import os
from datetime import datetime, timedelta

import zstandard

COLUMNS = ("ts", "trade_id", "symbol", "price")


def rows_of(day, count=30):
    """A row a minute; every fifth comes 42 seconds behind the one before it."""
    begin = datetime(2024, 1, day, 9)
    times = [begin + timedelta(minutes=number) for number in range(count)]
    for number in range(4, count, 5):
        times[number] = times[number - 1] - timedelta(seconds=42)
    return [(at, 100 * day + number, "ab"[number % 2], number / 2) for number, at in enumerate(times)]


def separated(rows, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in [COLUMNS, *rows]).encode()


def objects(rows):
    return [dict(zip(COLUMNS, (str(at), *others), strict=True)) for at, *others in rows]


def lines(rows):
    return "".join(json.dumps(one) + "\n" for one in objects(rows)).encode()


FIRST, SECOND = rows_of(1), rows_of(2)
# By name: files with their contents, the path that is to be written, options beside header, how many rows there are.
LAYOUTS = {
    "csv.gz": ({"x.csv.gz": gzip.compress(separated(FIRST))}, "x.csv.gz", {}, 30),
    "tsv": ({"x.tsv": separated(FIRST, "\t")}, "x.tsv", {"sep": "\t"}, 30),
    "jsonl.gz": ({"x.jsonl.gz": gzip.compress(lines(FIRST))}, "x.jsonl.gz", {}, 30),
    "a list in JSON": ({"x.json": json.dumps(objects(FIRST), indent=1).encode()}, "x.json", {"multiLine": True}, 30),
    "parts": (
        {"part-0000.csv": separated(FIRST), "part-0001.csv": separated(SECOND), "notes.txt": b"mine"},
        "part-*.csv",
        {},
        60,
    ),
    "a folder": ({"trades/1.csv": separated(FIRST), "trades/2.csv": separated(SECOND)}, "trades", {}, 60),
    "a folder with other files": (
        {"trades/1.csv": separated(FIRST), "trades/README.md": b"ours", "trades/_SUCCESS": b""},
        "trades/*.csv",
        {},
        30,
    ),
    "by date": (
        {
            "trades/date=2024-01-01/part-0.tsv.gz": gzip.compress(separated(FIRST, "\t")),
            "trades/date=2024-01-02/part-0.tsv.gz": gzip.compress(separated(SECOND, "\t")),
            "trades/README.md": b"ours",
        },
        "trades",
        {"sep": "\t", "pathGlobFilter": "*.tsv.gz"},
        60,
    ),
    "deep": (
        {"data/2024/01/x.jsonl": lines(FIRST), "data/2024/02/x.jsonl": lines(SECOND)},
        "data",
        {"recursiveFileLookup": True},
        60,
    ),
    "zstd": ({"x.csv.zst": zstandard.compress(separated(FIRST))}, "x.csv.zst", {}, 30),
    "parts without extension": (
        {"out/part-00000": separated(FIRST, ";"), "out/part-00001": separated(SECOND, ";"), "out/_SUCCESS": b""},
        "out",
        {"sep": ";"},
        60,
    ),
    "times with hours of offset": (
        {"x.jsonl": b"".join(line.replace(b':00"', b':00+00"') + b"\n" for line in lines(FIRST).splitlines())},
        "x.jsonl",
        {},
        30,
    ),
    "an empty part": (
        {"t/part-0.csv": b"", "t/part-1.csv": separated([]), "t/part-2.csv": separated(FIRST)},
        "t",
        {},
        30,
    ),
}


def write_layout(folder, name):
    """Write the files, and return what is to be found."""
    files, *found = LAYOUTS[name]
    for number, (path, content) in enumerate(files.items()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        os.utime(folder / path, (10**9 + number, 10**9 + number))  # of the same age, Spark takes them in any order
    return found
