"""Who may ask what: host names, other sites, tokens, and the headers of every response."""

from __future__ import annotations

import socket

import pytest

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.guard import Guard
from tests.dashboard.asking import in_a_loop, served

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def page():
    with served(LiveShow("nothing")) as asking:
        yield asking


@pytest.mark.parametrize("path", ["/", "/assets/nope", "/api/state", "/api/nope", "/api/board", "/healthz"])
def test_every_response_has_the_headers(page, path):
    _, headers, _ = page.raw("GET", path)
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "10.0.0.1"]
)
def test_a_name_that_was_made_to_point_here_is_refused(page, host):
    status, headers, content = page.raw("GET", "/api/state", Host=host)
    assert status == 421
    assert b"host name" in content
    assert headers["content-security-policy"] == POLICY
    assert page.raw("GET", "/", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:9", "LOCALHOST"])
def test_loopback_has_several_names(page, host):
    assert page.raw("GET", "/api/state", Host=host)[0] == 200


def test_other_sites_may_not_ask(page):
    for site in ("cross-site", "same-site"):
        assert page.raw("GET", "/api/state", Sec_Fetch_Site=site)[0] == 403
    assert page.raw("GET", "/api/state", Sec_Fetch_Site="same-origin")[0] == 200
    assert page.raw("GET", "/", Sec_Fetch_Site="cross-site")[0] == 200  # a link to the page


def test_on_loopback_reading_needs_no_token_and_changing_is_off(page):
    assert "#token" not in page.server.url
    assert page.status("state")[0] == 200
    for token in ("", page.token):
        status, found = page.post("add", {"sql": "TOPK 3 OVER 5 ROWS"}, token)
        assert status == 403
        assert "--allow-control" in found["error"]


def test_elsewhere_everything_needs_the_token():
    with served(LiveShow("nothing"), host="0.0.0.0") as page:
        assert page.server.url.endswith(f"#token={page.token}")
        assert socket.gethostname() in page.server.url
        assert page.status("state")[0] == 403
        assert page.raw("GET", "/api/state", X_Skyband_Token=page.token)[0] == 200
        assert page.raw("GET", "/api/state", X_Skyband_Token=page.token[:-1])[0] == 403
        assert page.raw("GET", f"/api/state?token={page.token}")[0] == 403  # only events cannot send it otherwise
        with page.events() as refused, page.events(token="x") as wrong, page.events(token=page.token) as allowed:
            assert (refused.status, wrong.status, allowed.status) == (403, 403, 200)
        assert page.raw("GET", "/")[0] == 200
        assert page.raw("GET", "/", Host="192.168.7.7:80")[0] == 200
        assert page.raw("GET", "/", Host="evil.example")[0] == 421


def test_tokens_are_made_anew_each_time():
    tokens = set()
    for _ in range(3):
        with served(LiveShow("nothing")) as page:
            tokens.add(page.token)
    assert len(tokens) == 3
    assert all(len(token) >= 32 for token in tokens)


def test_what_is_no_request_is_not_passed_on():
    async def app(*_):
        raise AssertionError("it was")

    guard = Guard(app, "127.0.0.1", "t", control=False)
    in_a_loop(guard({"type": "websocket"}, None, None))
