"""What the page shows: a run that goes on, or answers in a folder; each with its queries, numbers and history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from skyband import __version__
from skyband.dashboard.history import History
from skyband.dashboard.query_info import QueryInfo, asked_of, stream_of

if TYPE_CHECKING:
    from skyband.dashboard.control import RunControl
    from skyband.queries.workload import Workload
    from skyband.workload_file import WorkloadFile

__all__ = ["LiveShow", "Numbers", "Show", "state_of"]

Numbers = Callable[[], Mapping[str, Mapping[str, Any]]]


class Show(Protocol):
    """What a page can be made of."""

    title: str
    history: History
    live: bool
    ended: bool
    control: RunControl | None
    version: int  # of what is asked

    def refresh(self) -> int:
        """Take in what has come; the version of the history now."""

    def asked(self) -> Mapping[str, QueryInfo]:
        """The queries, by name."""

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The workloads by stream, where they are known."""

    def algorithm(self, stream: str) -> str:
        """The algorithm that a stream's queries were asked to be run by."""

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """How the streams are doing."""

    def ailment(self) -> str | None:
        """Why what is shown does not get on; None: it does, or need not."""


class LiveShow:
    """A workload file that runs in this process."""

    live = True

    def __init__(self, title: str, *, history: History | None = None, control: RunControl | None = None) -> None:
        self.title = title
        self.history = history or History()
        self.control = control
        self.ended = False
        self.version = 0
        self._file: Callable[[], WorkloadFile] | None = None
        self._numbers: Numbers = dict
        self._ailment: Callable[[], str | None] = lambda: None
        self._workloads: Mapping[str, Workload[Any]] = {}
        self._asked: dict[str, QueryInfo] = {}
        self._shape = 0
        self._lock = threading.Lock()

    def begin(
        self,
        file: Callable[[], WorkloadFile],
        numbers: Numbers,
        ailment: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Say where the file that runs, as it is now, its numbers and what is wrong with the run are found."""
        self._file, self._numbers, self._ailment = file, numbers, ailment
        self.refresh()

    def end(self) -> None:
        """The run has ended; what was answered stays."""
        self.refresh()
        self.ended = True
        self.history.wake()

    def refresh(self) -> int:
        """Take in what has come, and whether the workload is another one."""
        with self._lock:
            if self._file is not None and (file := self._file()).workloads is not self._workloads:
                ids = {name: stream.id for name, stream in file.streams.items()}
                self._asked = asked_of(file.workloads, ids)
                self.history.ask(self._asked)
                self._workloads = file.workloads
                self.version += 1
            version = self.history.settle()
            shape = self.history.shape
            if shape != self._shape:  # a stream's first answers tell its columns
                self._shape = shape
                self.version += 1
            return version

    def asked(self) -> Mapping[str, QueryInfo]:
        """The queries, by name."""
        return self._asked

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The workloads, by stream."""
        return self._workloads

    def algorithm(self, stream: str) -> str:
        """The algorithm that a stream's queries are run by, as the file has it."""
        return "auto" if self._file is None else self._file().algorithm_of(stream)

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """How the streams are doing. A live change starts a stream again from its state, and so do no others."""
        return {name: {**one, "restarts": one.get("changes", 0)} for name, one in self._numbers().items()}

    def ailment(self) -> str | None:
        """Why the run does not get on; None: it does, or has ended."""
        return self._ailment()


def state_of(show: Show) -> dict[str, Any]:
    """What is shown, as it is sent."""
    asked = show.asked()
    streams = list(dict.fromkeys(one.stream for one in asked.values()))
    return {
        "title": show.title,
        "version": __version__,
        "live": show.live,
        "ended": show.ended,
        "control": show.control is not None,
        "streams": [stream_of(name, asked.values()) for name in streams],
        "queries": [one.to_dict(show.history.columns(one.name)) for one in asked.values()],
    }
