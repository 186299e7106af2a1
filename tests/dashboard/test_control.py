"""Changing a run from the page: by its mailbox, with the token, and with what it costs said before."""

from __future__ import annotations

import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.control import RunControl
from tests.dashboard.asking import served
from tests.dashboard.serve import Pretended


@pytest.fixture
def run(tmp_path):
    with Pretended(tmp_path, many=2) as found:
        yield found


@pytest.fixture
def page(run):
    show = LiveShow("run", control=RunControl(run.box, lambda: run.file, timeout=300))
    show.begin(lambda: run.file, run.numbers)
    with served(show) as asking:
        yield asking


def names(page):
    return [one["name"] for one in page.get("state")["queries"]]


def test_a_query_is_explained_then_added_then_dropped(page, run):
    sql = "recent: TOPK price * size, 7 OVER 5 MINUTES EVERY 1 MINUTE"
    before = run.file
    status, found = page.post("explain", {"sql": sql, "stream": "trades"})
    assert status == 200
    assert (found["name"], found["stream"]) == ("recent", "trades")
    assert found["cost"] == str(run.file.workloads["trades"].cost(found_query(sql)))
    assert "4 queries over event time" in found["text"]
    assert run.file is before  # nothing was changed
    status, found = page.post("add", {"sql": sql, "stream": "trades"})
    assert (status, "added 'recent'" in found["done"]) == (200, True)
    assert "recent" in names(page)
    status, found = page.post("drop", {"name": "recent"})
    assert status == 200
    assert "recent" not in names(page)
    run.give(page.server._show.history)
    assert set(page.get("summaries")) == set(names(page))
    assert page.server._show.numbers()["trades"]["restarts"] == 2


def found_query(sql):
    import skyband as sb

    return sb.sql(sql)


def test_an_uncertain_query_has_a_plan_and_no_cost(page):
    status, found = page.post(
        "explain", {"sql": "slow: TOPK speed, 3 PROBABILITY p OVER 20 MINUTES FREQUENCY 7 MINUTES", "stream": "cars"}
    )
    assert (status, found["cost"]) == (200, None)
    assert "plan          dp" in found["text"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"sql": "TOPK price, OVER"}, "line 1"),
        ({"sql": "x: TOPK price, 3 OVER 5 MINUTES"}, "the job has several streams"),
        ({"sql": "x: TOPK price, 3 OVER 5 MINUTES", "stream": "nope"}, "'nope' does not exist"),
        ({"sql": "largest: TOPK price, 3 OVER 5 MINUTES", "stream": "trades"}, "a query named 'largest' already runs"),
        (
            {"sql": "x: TOPK reflect('java.lang.System', 'exit'), 3 OVER 5 MINUTES", "stream": "trades"},
            "uses reflect, which is not allowed in a running job",
        ),
        ({"sql": "x: TOPK price, 200000 OVER 5 MINUTES", "stream": "trades"}, "100,000"),
        (
            {"sql": "x: TOPK 3 OVER 5 MINUTES; y: TOPK 3 OVER 5 MINUTES", "stream": "trades"},
            "must contain one statement, got 2",
        ),
        ({"sql": "x: TOPK price, 3 OVER 500 ROWS", "stream": "trades"}, "one axis"),
    ],
)
def test_what_the_run_would_refuse_is_refused_before(page, run, body, said):
    before = run.file
    status, found = page.post("explain", body)
    assert status == 422
    assert said in found["error"]
    assert run.file is before


def test_what_the_run_refuses_is_told(page, run):
    status, found = page.post("add", {"sql": "largest: TOPK price, 3 OVER 5 MINUTES", "stream": "trades"})
    assert status == 422
    assert "a query named 'largest' already runs" in found["error"]
    assert "The job continues unchanged." in found["error"]
    assert page.post("drop", {"name": "nope"})[0] == 422


@pytest.mark.parametrize("path", ["explain", "add", "drop"])
def test_nothing_without_the_token(page, run, path):
    body = {"sql": "x: TOPK price, 3 OVER 5 MINUTES", "stream": "trades", "name": "largest"}
    before = run.file
    for token in ("wrong", page.token + "x", page.token[:-1]):
        assert page.post(path, body, token)[0] == 403
    assert page.raw("POST", f"/api/{path}", "{}")[0] == 403
    assert run.file is before
    assert page.server.url.endswith(f"/#token={page.token}")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"sql": 3}', b"{}", b'{"sql": "x", "stream": 4}', b"[" * 10_000])
def test_what_is_no_request(page, body):
    status, _, _ = page.raw("POST", "/api/add", body, X_Skyband_Token=page.token)
    assert status == 400


def test_a_very_long_request_is_not_read(page):
    status, _, _ = page.raw("POST", "/api/add", b'{"sql": "' + b"x" * 70_000 + b'"}', X_Skyband_Token=page.token)
    assert status == 413


def test_an_ended_job_accepts_no_changes(page, run):
    run.__exit__()
    status, found = page.post("drop", {"name": "largest"})
    assert status == 422
    assert "the job does not accept changes" in found["error"]
