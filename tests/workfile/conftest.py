"""Fixtures of these tests."""

from __future__ import annotations

from tests.workfile.files import problems, read

__all__ = ["problems", "read"]
