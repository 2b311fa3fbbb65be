"""The real files of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator

from neutrino.dataplane.files.api import DIRECTORY_MODE, FILE_MODE, FilesError

_SUFFIX = ".new~"  # of a file that is being written; one that was left so by a killed agent is nobody's


class RealFiles:
    def read(self, path: str) -> str | None:
        with _refusals(path, "read"):
            try:
                with open(path, encoding="utf-8", errors="replace", newline="") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def write(self, path: str, text: str, *, mode: int = FILE_MODE) -> bool:
        with _refusals(path, "written"):
            if self.read(path) != text:
                _put(path, text.encode(), mode)
                return True
            if stat.S_IMODE(os.stat(path).st_mode) != mode:
                os.chmod(path, mode)
                return True
            return False

    def remove(self, path: str) -> bool:
        with _refusals(path, "removed"):
            try:
                os.unlink(path)
            except FileNotFoundError:
                return False
            return True

    def list(self, directory: str) -> frozenset[str]:
        with _refusals(directory, "listed"):
            try:
                return frozenset(name for name in os.listdir(directory) if not name.endswith(_SUFFIX))
            except FileNotFoundError:
                return frozenset()

    def make_directory(self, path: str, *, mode: int = DIRECTORY_MODE) -> None:
        with _refusals(path, "made"):
            os.makedirs(path, exist_ok=True)
            if stat.S_IMODE(os.stat(path).st_mode) != mode:
                os.chmod(path, mode)

    def remove_directory(self, path: str) -> None:
        with _refusals(path, "removed"), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)


def _put(path: str, content: bytes, mode: int) -> None:
    """Its mode is right before it can be seen under its name: it may hold a password."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=_SUFFIX, dir=os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _refusals(path: str, what: str) -> Iterator[None]:
    if not os.path.isabs(path):
        raise FilesError(f"{path}: not an absolute path")
    try:
        yield
    except OSError as error:
        raise FilesError(f"{path} cannot be {what}: {error.strerror}") from error
