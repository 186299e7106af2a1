"""Run workload files on Spark or in this process, change running jobs, and verify answers.

>>> from skyband.jobs import run
>>> run("skyband.yaml").await_end()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.jobs.job import Run, run
    from skyband.jobs.local_job import LocalRun, run_local

__all__ = ["LocalRun", "Run", "run", "run_local"]

# Mailbox, journal and local jobs do not need Spark, so Spark is loaded only when a job is run.
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__, submod_attrs={"job": ["Run", "run"], "local_job": ["LocalRun", "run_local"]}
)
