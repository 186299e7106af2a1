"""Tests that share a server or large kernels are handed to one process; all others go where there is room."""

from __future__ import annotations

from tests.scheduling import group_of


def test_groups():
    kafka = {
        group_of(f"tests/connectors/kafka/{name}")
        for name in ("test_reading.py::test_a[x]", "test_security.py::test_b")
    }
    assert len(kafka) == 1
    sap = {
        group_of(f"tests/conformance/test_answers.py::test_a[{name}-rank]") for name in ("sap", "sap-equal", "10-sap")
    }
    assert len(sap) == 1
    assert len(kafka | sap | {group_of("tests/test_java.py::test_a"), group_of("tests/test_java.py::test_b")}) == 4
