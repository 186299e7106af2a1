"""Who makes a micro-batch fail: found by trying it with some queries and without others."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import pytest

import skyband as sb
from skyband.jobs.journal import Change, Journal
from skyband.jobs.live_queries import MOST_TRIALS, LiveQueries, culprits

OWN = [sb.TopK(name="own", k=1, size=5)]
JOINED = [sb.TopK(name=f"q{number}", k=1, size=5) for number in range(5)]  # the newest first


def trying(is_bad):
    """Fails as told, by the names of the queries that joined; counts the trials."""
    trials = []

    def tried(queries):
        names = {query.name for query in queries}
        trials.append(names)
        return ValueError("broken") if is_bad(names - {"own"}) else None

    return tried, trials


def found(is_bad, joined=JOINED, own=OWN):
    tried, trials = trying(is_bad)
    return {query.name for query, _ in culprits(joined, own, tried)}, len(trials)


@pytest.mark.parametrize("size", range(1, 6))
def test_whoever_breaks_it_by_itself(size):
    for some in combinations([query.name for query in JOINED], size):
        names, _ = found(lambda tried, bad=set(some): bool(tried & bad))
        assert names == set(some)


def test_the_newest_takes_two_trials():
    assert found(lambda tried: "q0" in tried) == ({"q0"}, 2)


def test_nobody_where_it_fails_without_them():
    assert found(lambda _: True)[0] == set()


def test_nobody_where_it_does_not_fail_again():
    assert found(lambda _: False) == (set(), 1)


def test_who_breaks_it_together_goes_the_newest_first():
    assert found(lambda tried: {"q1", "q3"} <= tried)[0] == {"q0", "q1"}


def test_without_a_query_of_the_file_the_last_may_be_dropped():
    assert found(bool, own=[])[0] == {query.name for query in JOINED}


def test_many_do_not_take_for_ever():
    many = [sb.TopK(name=f"q{number}", k=1, size=5) for number in range(2000)]
    names, trials = found(lambda tried: any(int(name[1:]) % 2 for name in tried), many)
    assert {name for name in (query.name for query in many) if int(name[1:]) % 2} <= names
    assert trials <= 3 * MOST_TRIALS


class Lost:
    """A stream whose Java was killed before a micro-batch was done."""

    failure = ConnectionRefusedError()
    plan = SimpleNamespace(queries=JOINED[:1])

    def __init__(self, *, done):
        self.has_done_a_batch = done


def runs_without_java(tmp_path, *, settled):
    """What the journal says last of a query after Java was lost in many runs."""
    journal = Journal(tmp_path)
    query = JOINED[0]
    file = SimpleNamespace(workloads={"s": [OWN[0], query]}, hide=str)
    live_queries = LiveQueries(journal, {"own"})
    journal.append(Change("try", "s", query))
    live_queries.joined("s", query)
    if settled:
        live_queries.settle("s", Lost(done=True))
    for _ in range(5):
        live_queries = LiveQueries(journal, {"own"})
        live_queries.read()
        live_queries.drop_culprits(file, "s", Lost(done=False), lambda _: None)
    return LiveQueries(journal, {"own"}).read()[-1].kind


def test_who_kills_java_drops_no_query_that_was_computed_once(tmp_path):
    assert runs_without_java(tmp_path, settled=True) == "add"


def test_what_may_end_java_each_time_is_dropped(tmp_path):
    assert runs_without_java(tmp_path, settled=False) == "drop"
