"""The servers of the API tests, here for writers that get in each other's way."""

from tests.api.conftest import admin, another_server, api, database, server

__all__ = ["admin", "another_server", "api", "database", "server"]
