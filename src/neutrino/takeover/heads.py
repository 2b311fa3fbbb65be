"""Releases of Neutron and of its plugins by the revisions in their databases, and tables without a place here."""

from collections.abc import Mapping
from typing import Final

# The last expand revision of each release; its contract branch has not changed since Newton.
RELEASES: Final[Mapping[str, str]] = {
    "fc153938cdc1": "2023.1",
    "89c58a70ceba": "2023.2",
    "0e6eff810791": "2024.1",
    "5bcb7b31ec7d": "2024.2",
    "ad80a9f07c5c": "2025.1",
    "d553edeb540f": "2025.2",
    "b1bca967e19d": "2026.1",
    "c7f8d9e0f1a2": "2026.2",
}
CONTRACT: Final = "5c85685d616d"
OLDEST: Final = "2023.1"
# The last revisions of older releases: known, to say what to do.
OLDER: Final[Mapping[str, str]] = {
    "5881373af7f5": "Zed",
    "34cf8b009713": "Yoga",
    "1bb3393de75d": "Xena",
    "6135a7bd4425": "Wallaby",
    "I38991de2b4": "Victoria",
    "d8bdf05313f4": "Ussuri",
    "c613d0b82681": "Train",
    "9bfad3f1e780": "Stein",
    "867d39095bf4": "Rocky",
    "594422d373ee": "Queens",
}
UNKNOWN: Final = "unknown"  # the release of a revision that is not known, accepted by the operator
VERSION_TABLE: Final = "alembic_version"
# Revisions of the plugins' own branches that are understood, by their version tables.
PLUGINS: Final[Mapping[str, frozenset[str]]] = {
    "alembic_version_fwaas": frozenset(
        {"f24e0d5e5bff", "fd38cd995cc0", "6941ce70131e", "2a0d33e9ef63", "1007f519ea46"}
    ),
    "alembic_version_vpnaas": frozenset(
        {"e50641731f1a", "5f884db48ba9", "22e0145ac80b", "b18aab30fddc", "842256a43ce2", "95601446dbcc"}
    ),
    "alembic_version_dr": frozenset({"f399fa0f5f25", "a589fdb5724c"}),
    "alembic_version_taas": frozenset({"ccbcc559d175", "f8f1f10ebaf9", "bac61f603e39"}),
}
