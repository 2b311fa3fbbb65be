"""When a file is written to, as the kernel tells it (inotify). Linux only, by way of the C library."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

MODIFY, CREATE = 0x2, 0x100
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name


class Written:
    """Watches one file, which need not be there yet: the events of its directory are read, and others' passed over."""

    def __init__(self, path: Path) -> None:
        self._name = os.fsencode(path.name)
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot be used")
        if libc.inotify_add_watch(self._descriptor, os.fsencode(path.parent), MODIFY | CREATE) < 0:
            self.close()
            raise OSError(ctypes.get_errno(), f"{path.parent} cannot be watched")

    def fileno(self) -> int:
        return int(self._descriptor)

    def read(self) -> bool:
        """Take what the kernel has told since; whether the file was among it."""
        try:
            data = os.read(self._descriptor, 64 * 1024)
        except BlockingIOError:
            return False
        found, at = False, 0
        while at < len(data):
            _, _, _, length = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            found = found or data[at : at + length].rstrip(b"\0") == self._name
            at += length
        return found

    def close(self) -> None:
        os.close(self._descriptor)
