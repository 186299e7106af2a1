"""All tests of this folder inject faults."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/tests/faults/" in str(item.path).replace("\\", "/"):
            item.add_marker(pytest.mark.faults)
