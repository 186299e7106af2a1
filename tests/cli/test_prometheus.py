"""Numbers for Prometheus: the page, and who may read it."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request

import pytest

import skyband as sb
from skyband.cli.line_writers import write_logs
from skyband.cli.prometheus import MetricsServer, page
from skyband.connectors.secrets import hidden

NUMBERS = {
    "trades": {"rows": 10, "late": 1, "candidates": 3, "emit_lag": 0.5, "bound": None, "algorithm": "panes"},
    'odd"name\\': {"rows": 0},
}


def get(url):
    with urllib.request.urlopen(url, timeout=300) as answer:
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]


def test_every_number_has_its_line():
    lines = page(NUMBERS).splitlines()
    assert 'skyband_rows_total{stream="trades"} 10.0' in lines
    assert 'skyband_rows_total{stream="odd\\"name\\\\"} 0.0' in lines
    assert 'skyband_emit_lag_seconds{stream="trades"} 0.5' in lines
    assert not any("bound" in line or "panes" in line for line in lines)
    told = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(told) == len(set(told)) == 4
    assert page({}) == ""


def test_it_is_served_on_loopback():
    with MetricsServer("0", lambda: NUMBERS) as exposed:
        assert exposed.url.startswith("http://127.0.0.1:")
        assert get(exposed.url) == (200, page(NUMBERS), "text/plain; version=0.0.4; charset=utf-8")
        assert get(exposed.url.replace("/metrics", "/healthz"))[1] == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(exposed.url.replace("/metrics", "/../../etc/passwd"))


def test_a_run_that_does_not_get_on_is_told():
    ailments = ["stream 'trades' has failed; see the log of the run for the reason.", None]
    with MetricsServer("0", dict, lambda: ailments.pop(0)) as exposed:
        url = exposed.url.replace("/metrics", "/healthz")
        with pytest.raises(urllib.error.HTTPError, match="503") as told:
            get(url)
        assert told.value.read() == b"stream 'trades' has failed; see the log of the run for the reason.\n"
        assert get(url)[:2] == (200, "ok\n")


def test_numbers_that_cannot_be_read_now(caplog):
    def numbers():
        raise ConnectionRefusedError("Java is gone")

    with MetricsServer("0", numbers) as exposed:
        for _ in range(5):
            with pytest.raises(urllib.error.HTTPError, match="503"):
                get(exposed.url)
        assert get(exposed.url.replace("/metrics", "/healthz"))[0] == 200
    assert len(caplog.records) <= 1


def test_a_port_that_is_taken_is_told():
    with MetricsServer("127.0.0.1:0", dict) as exposed:
        port = exposed.url.split(":")[2].split("/")[0]
        with pytest.raises(sb.InvalidInputError, match=f"--metrics: cannot listen on {port} "):
            MetricsServer(port, dict)


@pytest.mark.parametrize(
    "address", ["", "port", "127.0.0.1", "127.0.0.1:99999", "1:2:x", "²", "00000099999", "127.0.0.1:٣"]
)
def test_an_address_that_is_none(address):
    with pytest.raises(sb.InvalidInputError, match="must be a port such as 9464"):
        MetricsServer(address, dict)


def test_logs_are_lines_of_json(capsys):
    try:
        write_logs(as_json=True)
        logging.getLogger("skyband.control").warning("refused %s", "add")
        line = json.loads(capsys.readouterr().err)
        assert (line["level"], line["logger"], line["message"]) == ("warning", "skyband.control", "refused add")
    finally:
        _be_silent()


@pytest.mark.parametrize("as_json", [True, False])
def test_logs_have_no_secrets_and_no_lines_of_others(capsys, as_json):
    try:
        write_logs(as_json=as_json, hide=lambda text: hidden(text, {"hunter2"}))
        try:
            raise ValueError("no login with hunter2")
        except ValueError:
            logging.getLogger("skyband.control").exception("refused %s", "x\n2026-01-01 INFO all is well, hunter2")
        told = capsys.readouterr().err
        assert "hunter2" not in told
        assert told.count("***") >= 2
        first, *rest = told.splitlines()
        assert "refused x" in first
        assert all(line.startswith("    ") for line in rest)
        assert not (as_json and rest)
    finally:
        _be_silent()


def _be_silent():
    log = logging.getLogger("skyband")
    log.handlers[:], log.propagate = [], True
