"""The text of a workload file, or why there is none."""

from __future__ import annotations

from pathlib import Path

from skyband.errors import Problem, WorkloadFileError
from skyband.workload_file.tree import LARGEST

__all__ = ["text_of"]


def text_of(file: Path) -> str:
    """The text of the file; what is no text file has no line to point at."""
    try:
        if file.is_dir():
            raise _refused(file, f"this is a folder; give the file in it, such as {file / 'skyband.yaml'}.")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise _refused(file, "there is no such file; skyband init writes one.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _refused(file, f"the file cannot be read: {reason}.") from error
    if len(content) > LARGEST:
        raise _refused(file, f"the file has more than {LARGEST:,} bytes; no workload file needs so many.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"the byte 0x{content[error.start]:02x} is no UTF-8; save the file as UTF-8."
        raise WorkloadFileError([Problem(str(file), line, column, "", message)]) from None


def _refused(file: Path, message: str) -> WorkloadFileError:
    return WorkloadFileError([Problem(str(file), 0, 0, "", message)])
