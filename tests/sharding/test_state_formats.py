"""Versions of stored states: earlier ones are migrated, unknown ones are rejected, and nothing stored is changed."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from benchmarks.simulated_cluster import SimulatedCluster

import skyband as sb
from skyband.aggregate import open_panes, state_store
from skyband.queries.families import FAMILIES
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.snapshot import FORMATS, StateFormat, decode, encode, unchanged
from tests.golden_states import CASES, FOLDER, load

SHARDS = [family.part("shard").SHARD for family in FAMILIES.values()]


def test_each_family_has_a_shard_with_a_format_of_its_own():
    assert all(issubclass(kind, Shard) for kind in SHARDS)
    assert len({kind.state_format.name for kind in SHARDS}) == len(SHARDS)
    assert all(FORMATS[kind.state_format.name] is kind.state_format for kind in SHARDS)


def test_migrations_are_applied_in_turn_from_the_version_that_is_stored():
    first = StateFormat("test", [])
    second = StateFormat("test", [unchanged])
    third = StateFormat("test", [unchanged, lambda saved: {"total": sum(saved["parts"])}])
    assert (first.version, second.version, third.version) == (1, 2, 3)
    assert third.decode(encode({"parts": [1, 2]})) == {"total": 3}, "it says no version, so that it is of the first"
    assert third.decode(first.encode({"parts": [1, 2]})) == {"total": 3}
    assert third.decode(second.encode({"parts": [1, 2]})) == {"total": 3}
    assert third.decode(third.encode({"total": 3})) == {"total": 3}


@pytest.mark.parametrize("version", [3, 0, -1, True, "2", None])
def test_an_unknown_version_is_rejected(version):
    with pytest.raises(
        sb.SnapshotError, match=r"the test has version .* supports versions 1 to 2\. Nothing was resumed"
    ):
        StateFormat("test", [unchanged]).decode(encode({"version": version}))


NEWER = ("incomplete_shared", "aggregate_rows", "aggregate_sketch")


@pytest.mark.parametrize("name", CASES)
def test_shards_store_the_version_and_reject_a_later_one(name):
    case = CASES[name]()
    kind = shard_type(case.plan)
    unpack, pack = kind.state_format._unpack, kind.state_format._pack
    for number, stored in enumerate(load(FOLDER, case)):
        # The golden files are of version 1, but for forms that version 3 has brought.
        assert unpack(stored.blob).get("version", 1) == (3 if name in NEWER else 1)
        segments = MemorySegments(stored.segments)
        now = unpack(kind.resume(case.plan, number, stored.blob, segments).state())
        assert now["version"] == kind.state_format.version
        later, before = pack({**now, "version": 1 + kind.state_format.version}), dict(segments)
        with pytest.raises(sb.SnapshotError, match=f"state of the {kind.state_format.name} has version"):
            kind.resume(case.plan, number, later, segments)
        assert segments == before


def test_segments_reject_a_later_version():
    for data in load(FOLDER, CASES["aggregate_time"]())[0].segments.values():
        try:
            saved = state_store.unpacked(data)
        except sb.SnapshotError:  # a table
            assert open_panes._unpacked(data).num_rows
            continue
        assert state_store.SEGMENT.decode(data).keys() == saved.keys() | {"powers"}, "which version 3 added"
        with pytest.raises(sb.SnapshotError, match="aggregate segment has version 9"):
            state_store.SEGMENT.decode(state_store.packed({**saved, "version": 9}))
    table = pa.table({"pane": [1]})
    assert open_panes._unpacked(open_panes._packed(table)).equals(table, check_metadata=True)


def test_open_panes_reject_a_later_version(monkeypatch):
    later = StateFormat("later", [unchanged, unchanged])
    with monkeypatch.context() as patched:
        patched.setattr(open_panes, "SEGMENT", later)
        data = open_panes._packed(pa.table({"pane": [1]}))
    with pytest.raises(sb.SnapshotError, match="segment of open panes has version 3"):
        open_panes._unpacked(data)


def test_the_version_is_no_part_of_what_a_shard_loads():
    plain = decode(StateFormat("test", [unchanged]).encode({"clock": 1}))
    assert plain == {"version": 2, "clock": 1}


@pytest.mark.long
def test_the_garbage_collector_rests_while_a_shard_is_resumed():
    """Thousands of stored queries are thousands of small objects, which would cause collections in every step."""
    queries = [sb.TopK(name=f"q{k}", k=k, by="s", size="1 minute") for k in range(1, 400)]
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "id": pa.int64(), "s": pa.float64()})
    plan = SimulatedCluster(queries, schema).plan.plan
    kind = shard_type(plan)
    stored = kind(plan, 0).state()
    before, collected = gc.get_threshold(), []
    gc.callbacks.append(lambda phase, info: collected.append(phase))
    gc.set_threshold(100, 1, 1)
    try:
        decode(stored)
        assert collected, "this many objects cause collections"
        numbers = []
        for _ in range(3):  # a thread of other tests may cause a collection as well
            gc.collect()
            collected.clear()
            kind.resume(plan, 0, stored)
            numbers.append(len(collected))
        assert min(numbers) <= 2, "at most one, after it"
        assert gc.isenabled()
        with pytest.raises(sb.SnapshotError, match="damaged"):
            kind.resume(plan, 0, stored[:-1])
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.pop()
