"""Finding data files at a path: in the order Spark reads them, with the options its reader needs for their folders."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from skyband.connectors.file_formats import ENDING, Format, format_of, is_packed, is_tabs
from skyband.errors import InvalidInputError

__all__ = ["DataFiles", "find_files", "is_partition", "is_visible", "visible_files"]

_MOST = 100_000  # entries of folders that are looked at
_PARTITION = re.compile(r"([^=/]+)=([^/]*)")


@dataclass(frozen=True)
class DataFiles:
    """The data files at a path: `path` and `options` are what Spark's reader needs to read them, and no others."""

    path: str
    files: list[Path]  # in the order of a stream: by modification time, then by path
    format: Format
    options: dict[str, str] = field(default_factory=dict)
    root: Path | None = None  # the folder that has partition folders such as date=2024-01-01

    def partition_of(self, file: Path) -> dict[str, str]:
        """The columns that the folders of a file tell."""
        above = file.relative_to(self.root).parts[:-1] if self.root is not None else ()
        return dict(part.split("=", 1) for part in above)


def find_files(path: str | os.PathLike[str], besides: Sequence[Path] = ()) -> DataFiles:
    """The data files at a path: a file, a folder or a glob. InvalidInputError if there are none, or several kinds.

    `besides` are other files that will be there, too.
    """
    text, place = os.fspath(path), Path(path)
    if place.is_dir():
        return _in_folder(place, besides)
    found = [place] if place.is_file() else [Path(name) for name in sorted(glob.glob(text)) if Path(name).is_file()]
    if not found:
        raise InvalidInputError(f"{text} is not there; give a data file or a folder of them.")
    return DataFiles(text, _in_order(found), _only_format(text, found))


def is_partition(name: str) -> bool:
    """Whether a folder is named as Spark names those of a partition.

    >>> is_partition("date=2024-01-01"), is_partition("2024")
    (True, False)
    """
    return _PARTITION.fullmatch(name) is not None


def _in_folder(folder: Path, besides: Sequence[Path]) -> DataFiles:
    seen = list(visible_files(folder))
    found = [file for file in seen if format_of(file.name)]
    if not found:
        others = f"; seen: {_listed(file.name for file in seen)}" if seen else ""
        raise InvalidInputError(f"{folder} has no csv, json, jsonl or parquet files in it{others}.")
    kind = _only_format(str(folder), found)
    above = [file.relative_to(folder).parts[:-1] for file in found]
    path, options, root = str(folder), dict[str, str](), None
    names = {tuple(part.partition("=")[0] for part in parts) for parts in above}
    if any(above):
        if len(names) == 1 and all(is_partition(part) for parts in above for part in parts):
            root = folder
        else:
            options["recursiveFileLookup"] = "true"
    foreign = [file for file in seen if not format_of(file.name)]
    foreign += [file for file in besides if file.absolute().is_relative_to(folder.absolute())]
    if foreign:  # Spark reads whatever is in a folder
        pattern = _pattern(found)
        if any(fnmatchcase(file.name, pattern) for file in foreign):
            raise InvalidInputError(
                f"{folder} has other files beside its data ({_listed(file.name for file in foreign)}), and Spark would "
                f"read them as {kind}; put the data into a folder of its own."
            )
        if any(above):
            options["pathGlobFilter"] = pattern
        else:
            path = str(folder / pattern)
    return DataFiles(path, _in_order(found), kind, options, root)


def visible_files(folder: Path) -> Iterator[Path]:
    """The files that Spark would read: those that begin with a dot or an underscore are none."""
    left = _MOST
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_visible(name))
        for name in sorted(filter(is_visible, files)):
            yield Path(above, name)
        left -= len(files) + len(folders)
        if left < 0:
            raise InvalidInputError(f"{folder} has more than {_MOST:,} files and folders in it; name a part of it.")


def is_visible(name: str) -> bool:
    """Whether Spark reads a file, or looks into a folder, of this name.

    >>> is_visible("part-0.csv"), is_visible("_SUCCESS"), is_visible("_day=1")
    (True, False, True)
    """
    return not name.startswith(".") and (not name.startswith("_") or is_partition(name))


def _only_format(path: str, found: Sequence[Path]) -> Format:
    kinds = {(format_of(file.name), is_tabs(file.name)): file for file in found}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{path} has files of several kinds ({_listed(file.name for file in kinds.values())}), and a stream has "
            f"one; name those of one kind: skyband init '{found[0].parent}/*{_ending(found[0])}'"
        )
    ((kind, _),) = kinds
    if kind is None:
        raise InvalidInputError(
            f"the ending of {path} does not tell its format; use .csv, .tsv, .json, .jsonl or .parquet, also with .gz "
            "or .bz2 behind it."
        )
    return kind


def _in_order(found: Iterable[Path]) -> list[Path]:
    """As a stream of files reads them."""
    return sorted(found, key=lambda file: (file.stat().st_mtime_ns // 1_000_000, str(file)))


def _pattern(found: Sequence[Path]) -> str:
    endings = {_ending(file) for file in found}
    if len(endings) == 1:
        return f"*{endings.pop()}"
    plain = {ending.removesuffix(Path(ending).suffix) if is_packed(ending) else ending for ending in endings}
    return f"*{plain.pop()}*" if len(plain) == 1 else "*.*"


def _ending(file: Path) -> str:
    ending = re.search(ENDING, file.name)
    return ending[0] if ending else file.suffix


def _listed(names: Iterable[str]) -> str:
    every = sorted(set(names))
    return ", ".join(every[:5]) + (", …" if len(every) > 5 else "")
