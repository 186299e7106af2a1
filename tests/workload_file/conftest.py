"""Fixtures of these tests."""

from __future__ import annotations

from tests.workload_file.files import problems, read

__all__ = ["problems", "read"]
