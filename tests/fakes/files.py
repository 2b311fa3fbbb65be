"""Files in memory, in a tree of directories."""

from __future__ import annotations

import dataclasses
import os

from neutrino.dataplane.files.api import DIRECTORY_MODE, FILE_MODE, FilesError


@dataclasses.dataclass(frozen=True)
class FakeFile:
    text: str
    mode: int = FILE_MODE


class FakeFiles:
    """`written` is the path of every file that was changed, in order, for tests to look at."""

    def __init__(self) -> None:
        self.files: dict[str, FakeFile] = {}
        self.directories: dict[str, int] = {"/": DIRECTORY_MODE}
        self.written: list[str] = []

    def read(self, path: str) -> str | None:
        path = _checked(path)
        if path in self.directories:
            raise FilesError(f"{path} cannot be read: Is a directory")
        found = self.files.get(path)
        return found.text if found else None

    def write(self, path: str, text: str, *, mode: int = FILE_MODE) -> bool:
        path = _checked(path)
        if self.read(path) == text and self.files[path].mode == mode:
            return False
        if os.path.dirname(path) not in self.directories:
            raise FilesError(f"{path} cannot be written: No such file or directory")
        self.files[path] = FakeFile(text, mode)
        self.written.append(path)
        return True

    def remove(self, path: str) -> bool:
        path = _checked(path)
        if path in self.directories:
            raise FilesError(f"{path} cannot be removed: Is a directory")
        return self.files.pop(path, None) is not None

    def list(self, directory: str) -> frozenset[str]:
        directory = _checked(directory)
        if directory in self.files:
            raise FilesError(f"{directory} cannot be listed: Not a directory")
        every = [*self.files, *(each for each in self.directories if each != "/")]
        return frozenset(os.path.basename(each) for each in every if os.path.dirname(each) == directory)

    def make_directory(self, path: str, *, mode: int = DIRECTORY_MODE) -> None:
        path = _checked(path)
        above = path
        while above != "/":
            if above in self.files:
                raise FilesError(f"{path} cannot be made: Not a directory")
            self.directories.setdefault(above, DIRECTORY_MODE)
            above = os.path.dirname(above)
        self.directories[path] = mode

    def remove_directory(self, path: str) -> None:
        path = _checked(path)
        if path in self.files:
            raise FilesError(f"{path} cannot be removed: Not a directory")
        inside = f"{path}/"
        self.files = {each: file for each, file in self.files.items() if not each.startswith(inside)}
        kept = {each: mode for each, mode in self.directories.items() if each != path and not each.startswith(inside)}
        self.directories = {"/": DIRECTORY_MODE, **kept}


def _checked(path: str) -> str:
    if not os.path.isabs(path):
        raise FilesError(f"{path}: not an absolute path")
    return os.path.normpath(path)
