"""What the sections of a workload file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """A part of the file with keys: unknown ones are refused, and a file that was read does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
