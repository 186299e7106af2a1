"""Records that cannot be read: kept with the reason, while the stream lives and answers what it can."""

from __future__ import annotations

import base64

import pytest

from tests.connectors.kafka.topics import Sent, value_of
from tests.connectors.kafka.work import answers, finished, rows_of, wanted, workload
from tests.spark.frames import read_lines

MORE = "the value has text after its JSON object"
UNFIT = "the value is not a JSON object that matches the schema"
POISON = {
    "a tombstone": (None, "the value is null"),
    "nothing": (b"", UNFIT),
    "no JSON": (b"<xml/>", UNFIT),
    "cut short": (b'{"ts": "2024-01-01T00:00:00Z", "s": 1', UNFIT),
    "a list": (b'[{"ts": "2024-01-01T00:00:00Z", "s": 9e9}]', UNFIT),
    "a null": (b"null", UNFIT),
    "a score that is a word": (b'{"ts": "2024-01-01T00:00:00Z", "s": "high"}', UNFIT),
    "a time that is none": (b'{"ts": "yesterday", "s": 9e9}', UNFIT),
    "no time": (b'{"s": 9e9}', "column 'ts' contains no valid time"),
    "an object too many": (
        b'{"ts": "2024-01-01T00:00:00Z", "s": 9e9} {"s": 1}',
        MORE,
    ),
    "lines": (
        value_of((1, 9e9, 1, "a")) + b"\n" + value_of((2, 9e9, 2, "b")),
        MORE,
    ),
    "no UTF-8": (b'{"ts": "2024-01-01T00:00:00Z", "g": "\xff", "s": 9e9}', "the value is not valid UTF-8"),
    "deep": (b'{"g":' + b"[" * 1100 + b"]" * 1100 + b"}", UNFIT),
    "large": (b'{"g": "' + b"x" * 5000 + b'"}', "the value has 5009 bytes, more than 5000"),
}
# What looks odd and is a row all the same.
SOUND = b'{"ts": "1970-01-01T00:00:00.000001Z", "id": 77, "g": "}  {", "s": -5.0, "more": {"a": [{}, {"b": 1}]}}  \n'


@pytest.mark.parametrize("kind", ["json", pytest.param("csv", marks=pytest.mark.long)])
def test_what_is_wrong_with_each(spark, topics, tmp_path, kind):
    """All kinds at once, read as a batch: what becomes of them in a stream is below."""
    from skyband.connectors.source import Reading
    from skyband.connectors.sources import WRONG, read_rows

    topic = topics.name()
    file = workload(tmp_path, topics, topic, more="largest_value: 5000").streams["rows"]
    if kind == "csv":
        file = file.model_copy(update={"format": "csv"})
        sent = {
            b"2024-01-01T00:00:00Z,1,a,2.5": None,
            b"2024-01-01T00:00:00Z,1,a": "the value is not a CSV line that matches the schema",
            b"2024-01-01T00:00:00Z,1,a,2.5,more": "the value is not a CSV line that matches the schema",
            b"2024-01-01T00:00:00Z,1,a,high": "the value is not a CSV line that matches the schema",
            b",1,a,2.5": "column 'ts' contains no valid time",
            b"\xff,1,a,2.5": "the value is not valid UTF-8",
        }
    else:
        sent = dict(POISON.values()) | {SOUND: None}
    topics.send(topic, [Sent(value) for value in sent])
    found = [row[WRONG] for row in read_rows(file, Reading(spark, "rows", streaming=False)).collect()]
    assert found == list(sent.values())


@pytest.mark.long
@pytest.mark.faults
def test_the_stream_lives_and_the_letters_are_kept(spark, topics, tmp_path, tally):
    rows, topic, dead = rows_of(11, 90), topics.name(), topics.name()
    sent = [Sent(value_of(row)) for row in rows]
    for number, (value, _) in enumerate(POISON.values()):
        sent.insert(6 * number + 3, Sent(value, key=b"k%d" % number))
    topics.send(topic, sent)
    more = f"largest_value: 5000\nrows_per_batch: 40\ndead_letters: malformed\ndead_letter_topic: {dead}"
    file = workload(tmp_path, topics, topic, more=more)
    running = finished(file, spark)
    tally.fault("poison pill", len(POISON))
    tally.check_answers(answers(running), wanted(rows))
    metrics = running.metrics()["rows"]
    assert (metrics["malformed"], metrics["rows"]) == (len(POISON), len(sent))

    kept = sorted(read_lines(tmp_path / "malformed", "*/part-*"), key=lambda letter: letter["offset"])
    reasons = [reason for _, reason in POISON.values()]
    assert [(letter["offset"], letter["reason"]) for letter in kept] == [
        (6 * number + 3, reason) for number, reason in enumerate(reasons)
    ]
    assert {(letter["stream"], letter["topic"], letter["partition"]) for letter in kept} == {("rows", topic, 0)}
    assert [letter["key"] for letter in kept] == [f"k{number}" for number in range(len(POISON))]
    for (value, _), letter in zip(POISON.values(), kept, strict=True):
        text = letter["value"].encode() if "value" in letter else base64.b64decode(letter.get("base64", ""))
        assert text == (value or b"")[:5000]
        assert letter.get("size") == (None if value is None else len(value))

    buried = sorted(topics.read(dead), key=lambda record: int(header(record, "offset")))
    assert [(record["value"], header(record, "reason")) for record in buried] == list(POISON.values())
    assert {header(record, "topic") for record in buried} == {topic}
    assert [record["key"] for record in buried] == [b"k%d" % number for number in range(len(POISON))]


def header(record, name):
    return next(one["value"] for one in record["headers"] if one["key"] == f"skyband.{name}").decode()
