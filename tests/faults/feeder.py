"""Somebody who goes on writing files, whatever becomes of who reads them."""

from __future__ import annotations

import threading

from tests.faults import work


class Feeder:
    """Writes a file of rows every so many seconds, until it is told to stop."""

    def __init__(self, folder, every, begin=0):
        self._folder, self._every = folder, every
        self.files = begin
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def __enter__(self):
        self.write()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def write(self):
        work.write_rows(self._folder, self.files, work.rows_of(self.files))
        self.files += 1

    def stop(self):
        """No more rows, but one so late that everything before it becomes final."""
        if not self._enough.is_set():
            self._enough.set()
            self._thread.join()
            work.write_rows(self._folder, self.files, [work.last_row((self.files + 1000) * work.STEP)])

    def rows(self):
        """All rows that were written, but the last."""
        return [row for number in range(self.files) for row in work.rows_of(number)]

    def _feed(self):
        while not self._enough.wait(self._every):
            self.write()
