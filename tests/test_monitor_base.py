"""The monitors of all families are used in the same way: same signatures, same rules, refusals from one place."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import skyband as sb
from skyband.data.arrow import from_bytes, to_bytes
from skyband.monitor import MonitorBase
from skyband.queries.families import FAMILIES
from skyband.snapshot import FORMATS, decode, encode

S = 1_000_000
MODULES = {"topk": sb.topk, "aggregate": sb.aggregate, "incomplete": sb.incomplete, "uncertain": sb.uncertain}
SHARED = ("queries", "candidates", "valid_from")
METHODS = ("advance_to", "finish", "answers", "so_far", "add", "remove", "metrics", "snapshot", "resume")
MADE = {
    "topk": lambda name, size: sb.TopK(name=name, k=2, size=size),
    "aggregate": lambda name, size: sb.AggregateTopK(name=name, k=2, size=size),
    "incomplete": lambda name, size: sb.IncompleteTopK(name=name, k=2, size=size, streams=["s", "t"]),
    "uncertain": lambda name, size: sb.UncertainTopK(name=name, k=2, size=size),
}
COLUMNS = {
    "topk": ([3.0, 9.0, 5.0],),
    "aggregate": (["x", "y", "x"], [3.0, 9.0, 5.0]),
    "incomplete": (["x", "y", "x"], ["s", "t", "t"], [0.3, 0.9, 0.5]),
    "uncertain": ([3.0, 9.0, 5.0], [0.3, 0.9, 0.5]),
}
families = pytest.mark.parametrize("family", FAMILIES)


def monitor_of(family, *names, size="10 seconds"):
    return MODULES[family].Monitor([MADE[family](name, size) for name in names])


def push(monitor, family, *seconds):
    monitor.push([second * S for second in seconds], *COLUMNS[family])


def parameters(function):
    return [(name, one.kind, one.default) for name, one in inspect.signature(function).parameters.items()]


@families
def test_every_family_has_the_one_base(family):
    monitor = MODULES[family].Monitor
    assert issubclass(monitor, MonitorBase)
    assert monitor.asks.__name__ == FAMILIES[family].query
    assert {*SHARED, *METHODS, "push"} <= set(dir(monitor))


@families
@pytest.mark.parametrize("method", METHODS)
def test_methods_have_equal_signatures(family, method):
    assert parameters(getattr(MODULES[family].Monitor, method)) == parameters(getattr(sb.Monitor, method))


@families
def test_constructors_begin_with_queries(family):
    first, *others = inspect.signature(MODULES[family].Monitor).parameters.values()
    assert first.name == "queries"
    assert [one.default for one in others if one.name == "computed"] == [False]


def test_replay_takes_queries_then_the_columns_of_the_contract():
    expected = {
        "topk": ["queries", "positions", "scores", "ids", "algorithm"],
        "aggregate": ["queries", "positions", "keys", "values"],
        "incomplete": ["queries", "positions", "objects", "streams", "values"],
        "uncertain": ["queries", "positions", "scores", "probabilities", "rules", "ids", "plan"],
    }
    for family, names in expected.items():
        found = inspect.signature(MODULES[family].replay).parameters.values()
        assert [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD] == names


@families
def test_replay_takes_one_query_several_or_a_workload(family):
    query, other = MADE[family]("a", "10 seconds"), MADE[family]("b", "10 seconds")
    columns = ([1 * S, 4 * S, 7 * S], *COLUMNS[family])
    replay = MODULES[family].replay
    alone = replay(query, *columns)
    assert alone.num_rows > 0
    assert replay([query], *columns) == replay(sb.Workload(query), *columns) == alone
    both = replay([query, other], *columns)
    assert both == replay(sb.Workload([query, other]), *columns) == replay(iter([query, other]), *columns)
    assert both.filter(np.array(both["query"].to_pylist()) == "a") == alone
    moments = list(zip(both[query.moment].to_pylist(), both["query"].to_pylist(), strict=True))
    assert moments == sorted(moments)


@families
def test_a_finished_stream_takes_nothing_more(family):
    monitor = monitor_of(family, "a", "b")
    push(monitor, family, 1, 4, 7)
    monitor.finish()
    monitor.finish()
    for late in (
        lambda: push(monitor, family, 8, 9, 10),
        lambda: monitor.advance_to(90 * S),
        lambda: monitor.add(MADE[family]("c", "10 seconds")),
        lambda: monitor.remove("a"),
    ):
        with pytest.raises(sb.InvalidInputError, match=r"the stream was ended by finish\(\)"):
            late()


@families
def test_common_metrics(family):
    monitor = monitor_of(family, "a")
    push(monitor, family, 1, 4, 7)
    found = monitor.metrics()
    assert (found["rows"], found["dropped_null"], found["late"], found[monitor.counts]) == (3, 0, 0, 3)
    assert found["candidates"] == monitor.candidates > 0


@families
def test_queries_are_added_and_removed(family):
    monitor = monitor_of(family, "a", "b")
    push(monitor, family, 1, 4, 7)
    added = monitor.add(MADE[family]("c", "10 seconds"))
    assert monitor.valid_from == {"a": None, "b": None, "c": added}
    assert [query.name for query in monitor.queries] == ["a", "b", "c"]
    monitor.remove("a")
    push(monitor, family, 8, 12, 38)
    again = type(monitor).resume(monitor.snapshot())
    assert again.valid_from == monitor.valid_from == {"b": None, "c": added}
    for one in (monitor, again):
        one.finish()
    found = monitor.answers()
    assert found == again.answers()
    moments = {name: set() for name in "abc"}
    for row in found.select(["query", monitor.queries[0].moment]).to_pylist():
        moments[row["query"]].add(row[monitor.queries[0].moment])
    assert min(moments["b"]) <= 10 * S < max(moments["b"])
    assert all(moment <= 7 * S for moment in moments["a"]), "removed before it was due"
    assert moments["c"]
    assert added is None or min(moments["c"]) >= added


@families
def test_count_windows_take_queries_later_unless_the_registry_says_they_lack_it(family):
    monitor = monitor_of(family, "a", size=2)
    assert monitor.add(MADE[family]("b", 2)) is None
    monitor.push(None, *COLUMNS[family])
    before = monitor.snapshot()
    lacks = FAMILIES[family].lacks.get("add to count windows")
    if lacks is None:
        monitor.add(MADE[family]("c", 2))
        assert len(monitor.queries) == 3
        return
    with pytest.raises(sb.UnsupportedError) as raised:
        monitor.add(MADE[family]("c", 2))
    kind = FAMILIES[family].query
    assert str(raised.value) == f"add('c') after the first push is not supported for {kind} queries: {lacks}"
    assert monitor.snapshot() == before


@families
def test_what_cannot_be_removed(family):
    monitor = monitor_of(family, "a")
    with pytest.raises(sb.InvalidQueryError, match="'a' is the last query and cannot be removed"):
        monitor.remove("a")
    with pytest.raises(sb.UnknownNameError, match="query 'b' does not exist"):
        monitor.remove("b")


@families
def test_what_cannot_be_added(family):
    monitor = monitor_of(family, "a")
    other = MADE["topk" if family != "topk" else "aggregate"]("b", "10 seconds")
    for query, problem in ((MADE[family]("a", "10 seconds"), "more than one query"), (other, "must be of one family")):
        with pytest.raises(sb.InvalidQueryError, match=problem):
            monitor.add(query)
    filtered = type(monitor.queries[0])(**{**MADE[family]("b", "10 seconds").to_dict(), "where": "x > 1"})
    for one in (monitor, type(monitor).resume(monitor.snapshot())):
        with pytest.raises(sb.InvalidQueryError, match="where="):
            one.add(filtered)


@pytest.mark.parametrize("family", ["topk", "aggregate"])
def test_groups_must_have_been_told_before_a_query_asks_for_them(family):
    monitor = monitor_of(family, "a")
    push(monitor, family, 1, 4, 7)
    grouped = type(monitor.queries[0])(**{**MADE[family]("b", "10 seconds").to_dict(), "partition_by": ["g"]})
    with pytest.raises(sb.InvalidInputError, match="the rows so far were pushed without groups="):
        monitor.add(grouped)


@families
def test_a_snapshot_says_its_family_and_version(family):
    monitor = monitor_of(family, "a")
    saved = decode(monitor.snapshot())
    assert (saved["family"], saved["version"]) == (family, monitor.state_format.version)
    assert monitor.state_format.version >= 2
    assert FORMATS[f"{family} monitor"] is monitor.state_format


@pytest.mark.parametrize("version", [99, 0, -1, None, "2", 1.5, True, [2]], ids=repr)
@families
def test_an_unknown_version_is_rejected(family, version):
    monitor = monitor_of(family, "a")
    unknown = encode({**decode(monitor.snapshot()), "version": version})
    with pytest.raises(sb.SnapshotError) as raised:
        type(monitor).resume(unknown)
    newest = type(monitor).state_format.version
    assert f"the {family} monitor has version {version!r}, but this library supports versions 1 to {newest}" in str(
        raised.value
    )
    assert "Resume it with the version of Skyband that wrote it or a later one" in str(raised.value)


def first_version(family, saved):
    """A snapshot as it was written before snapshots of monitors had a number."""
    lacked = {
        "topk": ("family",),
        "aggregate": ("cohorts", "has_ids"),
        "incomplete": ("streams", "groups"),
        "uncertain": ("groups",),
    }
    own = ("version", "computed", *lacked[family], *(() if family == "topk" else ("valid_from", "ready")))
    old = {name: value for name, value in saved.items() if name not in own}
    if family == "aggregate":
        old["lanes"] = saved["cohorts"][0]["lanes"]
        for lane in old["lanes"]:
            lane["engine"] = {name: part for name, part in lane["engine"].items() if name not in ("ats", "ids")}
        if old["pending_keys"] is not None:
            old["pending_keys"] = to_bytes(from_bytes(old["pending_keys"]).drop_columns(["id"]))
    if family == "incomplete":  # every query had its own
        old["lanes"] = [first_lane(lane) for lane in saved["lanes"] for _ in lane["queries"]]
    if family == "uncertain":
        old["times"] = {"queries": old.pop("queries"), **old["times"]}
        old["counts"] = [*old["counts"], old.pop("windows")]
        old["extra"] = old["extra"][:2]
    return old


def first_lane(lane):
    engine = {name: value for name, value in lane["engine"].items() if name != "reported"}
    engine["registers"] = engine["registers"][:-1]
    return {**{name: value for name, value in lane.items() if name not in ("queries", "lattice")}, "engine": engine}


def counted(monitor):
    """The metrics without those measured since the monitor was resumed, and without how many queries share a state."""
    found = {
        name: value for name, value in monitor.metrics().items() if name not in ("seconds", "throughput", "latency")
    }
    if "queries" in found and isinstance(found["queries"], dict):
        found["queries"] = {name: {**one, "sharing": None} for name, one in found["queries"].items()}
    return found


@families
def test_the_first_version_is_converted(family):
    monitor = monitor_of(family, "a", "b")
    push(monitor, family, 1, 4, 12)
    saved = decode(monitor.snapshot())
    again = type(monitor).resume(encode(first_version(family, saved)))
    assert counted(again) == counted(monitor)
    for one in (monitor, again):
        push(one, family, 13, 27, 28)
        one.finish()
    assert again.answers() == monitor.answers()


@families
def test_resume_refuses_other_queries(family):
    monitor = monitor_of(family, "a", "b")
    blob = monitor.snapshot()
    assert type(monitor).resume(blob, monitor.queries).queries == monitor.queries
    with pytest.raises(
        sb.SnapshotError,
        match=r"the snapshot contains .*, but queries=.* was given; nothing was resumed.*Resume it without",
    ):
        type(monitor).resume(blob, monitor.queries[:1])
