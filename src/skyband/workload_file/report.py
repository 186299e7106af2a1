"""Collect all problems of a file, in order."""

from __future__ import annotations

from skyband.connectors.secrets import is_secret
from skyband.errors import Problem, WorkloadFileError
from skyband.workload_file.environment import Environment
from skyband.workload_file.tree import Loc, Place, YamlTree, spelled

__all__ = ["Report", "taken"]


class Report:
    """Problems with their places. Each key is reported once, with the first problem found."""

    def __init__(self, file: str, tree: YamlTree, environment: Environment) -> None:
        self._file = file
        self._tree = tree
        self._environment = environment
        self._problems: list[Problem] = []
        self._locs: set[Loc] = set()
        self.warnings: list[Problem] = []
        for spot in tree.wrong:
            self._note(spot.place, spot.loc, spot.message)

    def add(self, loc: Loc, message: str) -> None:
        """Add a problem at a key. If the key is not in the file, its place is that of the enclosing section."""
        if loc not in self._locs:
            self._note(self._place_of(loc), loc, message)

    def warn(self, loc: Loc, message: str) -> None:
        """Add a warning: a possible problem that does not make the file invalid."""
        self.warnings.append(
            Problem(self._file, *self._place_of(loc), spelled(loc), self._without_secrets(loc, message))
        )

    def _place_of(self, loc: Loc) -> Place:
        around = next(loc[:end] for end in range(len(loc), -1, -1) if loc[:end] in self._tree.places)
        return self._tree.places[around]

    def is_sound(self, *loc: str | int) -> bool:
        """Whether this key and the keys below it have no problems.

        Problems of enclosing sections do not count: an unknown key does not make its neighbours invalid.
        """
        return not any(known[: len(loc)] == loc for known in self._locs)

    def has(self, loc: Loc) -> bool:
        """Whether the key is in the file."""
        return loc in self._tree.places

    def has_variable(self, loc: Loc) -> bool:
        """Whether the value of the key contains an environment variable."""
        return loc in self._tree.written

    def written(self, loc: Loc) -> str | None:
        """The value as written in the file, if it contains a variable; else None."""
        return self._tree.written.get(loc)

    def line_of(self, loc: Loc) -> int:
        """Line of a key."""
        return self._tree.places[loc].line

    def finish(self) -> None:
        """Raise all problems in the order of the file, if there are any."""
        if self._problems:
            raise WorkloadFileError(sorted(self._problems, key=lambda problem: problem[:3]))

    def _note(self, place: Place, loc: Loc, message: str) -> None:
        self._locs.add(loc)
        self._problems.append(Problem(self._file, *place, spelled(loc), self._without_secrets(loc, message)))

    def _without_secrets(self, loc: Loc, message: str) -> str:
        """Show the value of a secret environment variable as written in the file."""
        written = self._tree.written.get(loc)
        if written is not None and (is_secret(spelled(loc)) or is_secret(written)):
            value = self._tree.value
            for part in loc:
                value = value[part]
            message = message.replace(repr(value), repr(written))
        return self._environment.hide(message)


def taken(name: str, line: int) -> str:
    """Return the message for a duplicate query name."""
    return f"{name!r} is already the name of a query (line {line}). Query names must be unique in the file."
