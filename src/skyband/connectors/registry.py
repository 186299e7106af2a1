"""A client of schema registries with the API of Confluent's: schemas by number, and the newest of a subject."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from skyband.connectors.http_errors import transient_reason
from skyband.connectors.secrets import shown_address
from skyband.connectors.server import GivenUpError, Patience
from skyband.errors import InvalidInputError, PipelineError

__all__ = ["KINDS", "Registered", "Registry", "UnknownSchemaError"]

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}  # types of schemas by the format of a stream
TIMEOUT = 10  # seconds for a request
_LARGEST = 1 << 24  # bytes of a response
_MOST_REFERENCES = 1000


class UnknownSchemaError(Exception):
    """The registry has no such schema or subject."""


class Registered(NamedTuple):
    """A schema of a registry, and the schemas that it refers to, before those that refer to them."""

    text: str
    kind: str  # AVRO, PROTOBUF or JSON
    references: tuple[str, ...] = ()


class Registry:
    """A registry at an address, which can contain a name and a password.

    Requests are repeated for `wait` seconds while the registry is unavailable; then PipelineError is raised.
    """

    def __init__(self, url: str, wait: float) -> None:
        self._shown = shown_address(url)
        parts = urlsplit(url.rstrip("/"))
        login, _, host = parts.netloc.rpartition("@")
        self._url = urlunsplit((parts.scheme, host, parts.path, "", ""))
        self._login = None
        if login:
            name, _, password = login.partition(":")
            self._login = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
        self._patience = Patience(wait, f"the schema registry {self._shown}")

    def schema(self, number: int) -> Registered:
        """Return a schema by its number; raise UnknownSchemaError if there is none."""
        return self._registered(self._get(f"/schemas/ids/{number}"))

    def newest(self, subject: str) -> Registered:
        """Return the newest schema of a subject; raise UnknownSchemaError if there is none."""
        return self._registered(self._get(f"/subjects/{quote(subject, safe='')}/versions/latest"))

    def check(self) -> None:
        """Raise InvalidInputError or PipelineError if the registry cannot be used."""
        self._get("/subjects")

    def _registered(self, found: Any) -> Registered:
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._unusable("its answer contains no schema")
        known: dict[tuple[str, int], str] = {}
        self._collect(found, known)
        return Registered(found["schema"], str(found.get("schemaType") or "AVRO"), tuple(known.values()))

    def _collect(self, found: dict[str, Any], known: dict[tuple[str, int], str]) -> None:
        """Collect the schemas that one refers to, each after those that it refers to itself."""
        for one in found.get("references") or ():
            try:
                place = str(one["subject"]), int(one["version"])
            except (KeyError, TypeError, ValueError):
                raise self._unusable("its answer contains a reference without subject and version") from None
            if place in known:
                continue
            if len(known) >= _MOST_REFERENCES:
                raise self._unusable(f"a schema refers to more than {_MOST_REFERENCES} others")
            referred = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            if not isinstance(referred, dict) or not isinstance(referred.get("schema"), str):
                raise self._unusable("its answer contains no schema")
            known[place] = ""  # a schema can refer to itself through others
            self._collect(referred, known)
            del known[place]
            known[place] = referred["schema"]

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(
            self._url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        )
        if self._login is not None:
            request.add_unredirected_header("Authorization", f"Basic {self._login}")

        def fetch() -> bytes:
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                    data: bytes = response.read(_LARGEST + 1)
                    return data
            except urllib.error.HTTPError as error:
                error.close()  # its connection
                raise

        try:
            data = self._patience.attempt(fetch, transient_reason)
        except GivenUpError as error:
            raise PipelineError(
                f"the schema registry {self._shown} is unavailable ({error}). The stream stopped, because records "
                "cannot be decoded without their schemas; no data is lost. Start the registry and run it again, or "
                "set registry_wait to wait longer."
            ) from None
        except urllib.error.HTTPError as error:
            raise self._refused(error.code) from None
        try:
            if len(data) > _LARGEST:
                raise ValueError
            return json.loads(data)
        except ValueError:
            raise self._unusable("its answer is not JSON of at most 16 MB") from None

    def _refused(self, code: int) -> Exception:
        if code == 404:
            return UnknownSchemaError()
        if code in (401, 403):
            return InvalidInputError(
                f"the schema registry {self._shown} rejected the login (status {code}), so records cannot be decoded. "
                "Set the name and the password in the address, from the environment: "
                "registry: https://${USER}:${PASSWORD}@host"
            )
        return self._unusable(f"status {code}")

    def _unusable(self, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._shown} is not a schema registry with the API of Confluent's ({why}), so records cannot be "
            "decoded. Correct the address registry:, with its path."
        )
