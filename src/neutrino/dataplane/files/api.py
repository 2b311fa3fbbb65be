"""Files of a host: what daemons are given to read, compared with what is there before anything is written.

A file is written beside its place and then moved there: whoever opens it gets the old one or the new one, whole. It is not
forced to disk: what is lost with the machine's power is rendered and compared again when the agent starts.
"""

from __future__ import annotations

from typing import Protocol

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755


class FilesError(Exception):
    """A file or directory cannot be read, written or removed; the message names it."""


class Files(Protocol):
    """Paths are absolute. Texts are UTF-8; what is not, reads as one with replacement characters, and equals nothing."""

    def read(self, path: str) -> str | None:
        """None where there is no such file."""
        ...

    def write(self, path: str, text: str, *, mode: int = FILE_MODE) -> bool:
        """Whether anything had to be changed: the text, or the mode. The directory must be there."""
        ...

    def remove(self, path: str) -> bool:
        """Whether it was there."""
        ...

    def list(self, directory: str) -> frozenset[str]:
        """The names of files and directories in it; none where it is not there."""
        ...

    def make_directory(self, path: str, *, mode: int = DIRECTORY_MODE) -> None:
        """With those above it; nothing happens if it is there."""
        ...

    def remove_directory(self, path: str) -> None:
        """With all that is in it; nothing happens if it is not there."""
        ...
