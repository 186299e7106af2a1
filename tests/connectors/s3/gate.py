"""A gate before an S3 server, which ends the server in the middle of a request, and starts it again.

The gate is in a process of its own, with the server: clients can hold Python's lock until they have a response.

    python -m tests.connectors.s3.gate FOLDER PORT
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.connectors.s3.server import S3
from tests.servers import free_port
from tests.waiting import wait_for

_CONTROL = "/-/"


class Gate:
    """The gate, as tests see it."""

    def __init__(self, folder):
        self.port = free_port()
        command = [sys.executable, "-m", "tests.connectors.s3.gate", str(folder), str(self.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        wait_for(self._is_ready)
        self.direct = self._ask("port")  # past the gate

    def cut(self, method, part, place):
        """End the server at the next request with this method and part of the path, once; it starts again.

        `place`: ``before`` the request is passed on, or ``after`` it, before its response.
        """
        self._ask("cut", method=method, part=part, place=place)

    def kills(self):
        """The requests at which the server was ended, when it is back."""
        return self._ask("kills")

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)

    def _is_ready(self):
        assert self._process.poll() is None
        with contextlib.suppress(OSError):
            return self._ask("port")

    def _ask(self, what, **more):
        address = f"http://127.0.0.1:{self.port}{_CONTROL}{what}?{urlencode(more)}"
        with urllib.request.urlopen(address, timeout=120) as response:
            return json.load(response)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port, server):
        super().__init__(("127.0.0.1", port), _Handler)
        self.s3, self.kills, self._cut = server, [], None
        self._lock, self._restart = threading.Lock(), None

    def control(self, what, given):
        if what == "cut":
            self._cut = (given["method"], given["part"], given["place"])
        if what == "kills" and self._restart is not None:
            self._restart.join()
        return {"cut": None, "kills": self.kills, "port": self.s3.port}[what]

    def due(self, method, path):
        with self._lock:
            if self._cut is None or method != self._cut[0] or self._cut[1] not in path:
                return None
            place, self._cut = self._cut[2], None
            return place

    def end(self, method, path):
        self.s3.kill()
        self.kills.append((method, path))
        self._restart = threading.Thread(target=self.s3.start)
        self._restart.start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        with contextlib.suppress(OSError):
            super().handle_one_request()
            return
        self.close_connection = True

    def _pass_on(self):
        if self.path.startswith(_CONTROL):
            parts = urlsplit(self.path.removeprefix(_CONTROL))
            found = self.server.control(parts.path, {key: value[0] for key, value in parse_qs(parts.query).items()})
            self._respond(200, "OK", [], json.dumps(found).encode())
            return
        body = self._body()
        cut = self.server.due(self.command, self.path)
        if cut == "before":
            self.server.end(self.command, self.path)
        try:
            response, content = self._passed(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # as of a server that has ended
            return
        if cut == "after":
            self.server.end(self.command, self.path)
            self.close_connection = True
            return
        self._respond(response.status, response.reason, response.getheaders(), content)

    def __getattr__(self, name):
        if name.startswith("do_"):  # every method
            return self._pass_on
        raise AttributeError(name)

    def _respond(self, status, reason, headers, content):
        self.send_response_only(status, reason)
        has_body = self.command != "HEAD"
        for key, value in headers:
            if key.lower() not in ("transfer-encoding", "connection", "content-length" if has_body else ""):
                self.send_header(key, value)
        if has_body:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _passed(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.s3.port, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for key, value in self.headers.items():
                if key.lower() not in ("connection", "expect", "transfer-encoding", "content-length"):
                    connection.putheader(key, value)
            if body or "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    _s3 = S3(Path(sys.argv[1]))
    try:
        _gate = _Server(int(sys.argv[2]), _s3)
        threading.Thread(target=_gate.serve_forever, daemon=True).start()
        sys.stdin.read()  # until the test closes it, or ends
        _gate.control("kills", {})
    finally:
        _s3.kill()
