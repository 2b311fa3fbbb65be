"""The servers of the API tests, for concurrent writers."""

from tests.api.conftest import admin, another_server, api, database, server

__all__ = ["admin", "another_server", "api", "database", "server"]
