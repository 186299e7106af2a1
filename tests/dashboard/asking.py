"""A page on a free port, and requests to it as a browser sends them."""

from __future__ import annotations

import asyncio
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote, urlencode

from skyband.dashboard.connections import Address
from skyband.dashboard.server import PageServer

TIMEOUT = 300.0  # seconds; nothing that is tested takes as long, so that no clock decides


@contextmanager
def served(show, host="127.0.0.1"):
    """The page of a show, for the block."""
    with PageServer(show, Address(host, 0)) as server:
        yield Asking(server)


class Asking:
    """Asks a page for things."""

    def __init__(self, server):
        self.server, self.token = server, server.token

    def raw(self, method, path, body=None, **headers):
        """Status, headers and content of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get(self, path, **params):
        """The JSON of a route that must answer."""
        status, found = self.status(path, **params)
        assert status == 200, found
        return found

    def status(self, path, **params):
        """The status of a route, and its JSON."""
        url = f"/api/{path}" + (f"?{urlencode(params, quote_via=quote)}" if params else "")
        status, _, content = self.raw("GET", url)
        return status, strict(content)

    def post(self, path, content, token=None):
        """The status and JSON of a change that is asked for; with the right token unless another one is given."""
        given = self.token if token is None else token
        status, _, found = self.raw(
            "POST", f"/api/{path}", json.dumps(content), X_Skyband_Token=given, Content_Type="application/json"
        )
        return status, strict(found)

    @contextmanager
    def events(self, watch=(), token=None):
        """A connection to the events, as one reads them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
        params = {"watch": json.dumps(list(watch))} | ({"token": token} if token else {})
        connection.request("GET", f"/api/events?{urlencode(params)}")
        response = connection.getresponse()
        try:
            yield Events(response)
        finally:
            response.close()
            connection.close()


class Events:
    """Server-sent events, one after another."""

    def __init__(self, response):
        self.status, self.type = response.status, response.getheader("content-type")
        self._response = response

    def __iter__(self):
        fields = {}
        for line in self._response:
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield fields["event"], strict(fields["data"]), int(fields["id"])
                fields = {}
            else:
                fields = {}

    def until(self, kind, wanted=lambda _: True):
        """The content of the next event of a kind that is wanted."""
        for found, content, _ in self:
            if found == kind and wanted(content):
                return content
        raise AssertionError(f"the events ended without {kind}")


def strict(content):
    """JSON as browsers read it: what is no number there is none here."""

    def refuse(text):
        raise AssertionError(f"{text} is no JSON")

    return json.loads(content, parse_constant=refuse)


def in_a_loop(coroutine):
    """What a coroutine returns. It runs in another thread: a browser of other tests has the loop of this one."""
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, coroutine).result()
