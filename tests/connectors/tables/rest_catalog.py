"""A REST catalog of Iceberg that serves the tables of a catalog in a database, read only."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from tests.connectors.tables.places import catalog_of


class RestCatalog:
    """A server of this process, as a context."""

    def __init__(self, folder):
        catalog = catalog_of(folder)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
                if parts == ["v1", "config"]:
                    self._respond(200, {"defaults": {}, "overrides": {}})
                elif parts[:2] == ["v1", "namespaces"] and parts[3:] == ["tables"]:
                    found = [{"namespace": list(one[:-1]), "name": one[-1]} for one in catalog.list_tables(parts[2])]
                    self._respond(200, {"identifiers": found})
                elif parts[:2] == ["v1", "namespaces"] and catalog.table_exists((parts[2], parts[4])):
                    table = catalog.load_table((parts[2], parts[4]))
                    metadata = json.loads(table.metadata.model_dump_json(by_alias=True, exclude_none=True))
                    self._respond(200, {"metadata-location": table.metadata_location, "metadata": metadata})
                else:
                    self._respond(404, {"error": {"message": "none", "type": "NoSuchTableException", "code": 404}})

            def _respond(self, status, found):
                content = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure):
        self._server.shutdown()
        self._server.server_close()
