"""Values that are no numbers: the error names the value and its key, and nothing of the push is taken."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

KEYS = ["ann", "bob", "cid", "dan"]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([1.0, None, "n/a", "3"], r"values\[2\]='n/a', with key 'cid'"),
        (["1", "2", None, "-"], r"values\[3\]='-', with key 'dan'"),
        (["1", "nan", "2", "3"], r"values\[1\]='nan', with key 'bob'"),
        (["1", "2", "3", "4"], r"values\[0\]='1', with key 'ann'"),
        (pa.array([None, "x", "1", "2"]), r"values\[1\]='x', with key 'bob'"),
        (np.array([1, 2, 2**60, 3]), rf"values\[2\]={2**60}, with key 'cid'"),
        (pa.array([1, None, 3, -(2**60)]), rf"values\[3\]=-{2**60}, with key 'dan'"),
        ([decimal.Decimal(1), dt.date(2024, 1, 1), 2, 3], r"values\[1\]=datetime.date\(2024, 1, 1\), with key 'bob'"),
        ([True, False, True, False], r"values\[0\]=True, with key 'ann'"),
    ],
)
def test_a_push_names_the_first_value_and_its_key(values, named):
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=2, size=3))
    with pytest.raises(sb.InvalidInputError, match=named) as raised:
        monitor.push(None, KEYS, values)
    assert str(raised.value).lower().count("this push was rejected") == 1
    monitor.push(None, KEYS, [1.0, 2.0, None, 4.0])
    assert monitor.metrics()["rows"] == 4
    assert monitor.answers()["score"].to_pylist() == [4.0, 2.0]


def test_keys_of_several_columns():
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=2, size=3))
    with pytest.raises(sb.InvalidInputError, match=r"values\[1\]='x', with key \('bob', 2\)"):
        monitor.push(None, {"name": ["ann", "bob"], "team": [1, 2]}, ["1", "x"])


FRAME = {"ts": pa.array([0, 1, 2], pa.timestamp("us")), "k": ["a", None, "c"], "n": [1, 2, 3], "v": ["1", "x", "3"]}


@pytest.mark.parametrize(
    ("value", "key", "message"),
    [
        ("v", "k", r"value='v' has type string; .*value\[1\]='x', with key None"),
        ("v", ["k", "n"], r"value\[1\]='x', with key \(None, 2\)"),
        ("cast(v as double)", "n", r"failed at row 1, with key 2: the text is not a value"),
        ("n * 9007199254740993", "k", r"beyond 2\*\*53.* The value is 9007199254740993, with key 'a'"),
    ],
)
def test_frames_name_the_key(value, key, message):
    query = sb.AggregateTopK(k=1, size="1 second", key=key, value=value)
    with pytest.raises(sb.SkybandError, match=message):
        sb.replay(query, FRAME, time="ts")
    monitor = sb.aggregate.Monitor(query, time="ts")
    with pytest.raises(sb.SkybandError, match=message):
        monitor.push(FRAME)
