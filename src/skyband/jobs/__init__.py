"""Workload files that run on Spark: started, changed while they run, verified.

>>> from skyband.jobs import run
>>> run("skyband.yaml").await_end()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.jobs.job import Run, run

__all__ = ["Run", "run"]

# Mailbox and journal are used without Spark, so Spark is loaded when a job is run.
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs={"job": __all__})
