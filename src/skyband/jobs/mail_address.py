"""Where the run of a workload file is reached."""

from __future__ import annotations

from pathlib import Path

from skyband.errors import UnsupportedError
from skyband.jobs.mailbox import Mailbox
from skyband.paths import has_scheme
from skyband.workload_file.reader import WorkloadFile

__all__ = ["mailbox_of"]


def mailbox_of(file: WorkloadFile) -> Mailbox:
    """The mailbox of a file's run, beside its state."""
    checkpoint = str(file.engine.checkpoint)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"the state of {file.path} is in {checkpoint!r}, not on this machine, and so its run cannot be reached "
            "from here; to change the workload, edit the file and run it again."
        )
    return Mailbox(Path(checkpoint) / "mail")
