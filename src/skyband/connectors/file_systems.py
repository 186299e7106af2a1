"""Object stores: their addresses, and Arrow's file systems for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skyband.errors import InvalidInputError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["STORES", "is_store", "open_store"]

# Stores in which an object appears when it is complete, by the scheme of their addresses.
STORES = {"s3": "S3FileSystem", "s3a": "S3FileSystem", "gs": "GcsFileSystem"}


def is_store(address: object) -> bool:
    """Whether an address is of an object store to which answers can be written.

    >>> is_store("s3a://bucket/answers"), is_store("hdfs://host/answers"), is_store("answers")
    (True, False, False)
    """
    return isinstance(address, str) and address.partition("://")[0] in STORES and "://" in address


def open_store(address: str, options: Mapping[str, Any]) -> tuple[FileSystem, str]:
    """Return Arrow's file system of an address, and the path in it. Does not connect, except to find a region."""
    from pyarrow import fs

    scheme, _, path = address.partition("://")
    path = path.strip("/")
    given = dict(options)
    try:
        if STORES[scheme] == "S3FileSystem" and not given.keys() & {"region", "endpoint_override"}:
            fs.S3FileSystem(**given, region="us-east-1")  # an option that does not exist is reported, not its effect
            given["region"] = fs.resolve_s3_region(path.partition("/")[0])
        return getattr(fs, STORES[scheme])(**given), path
    except (AttributeError, ImportError):
        raise InvalidInputError(f"{address!r} cannot be used: this build of pyarrow has no {STORES[scheme]}.") from None
    except (TypeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InvalidInputError(
            f"options of {address!r} are not those of pyarrow.fs.{STORES[scheme]}: {why}. Nothing was written."
        ) from None
    except OSError as error:
        raise InvalidInputError(
            f"{address!r} cannot be used: {str(error).partition(chr(10))[0]}. Set region in options. Nothing was "
            "written."
        ) from None
