"""prometheus_client's files of values, with their space on the disk allocated before it is used.

prometheus_client writes to a memory mapping of a sparse file. On a full disk such a write ends the process by SIGBUS, which
no handler can turn into an error: metrics would end the API. Allocated first, a full disk is an OSError.
"""

import contextlib
import os
from typing import Final

from prometheus_client.mmap_dict import MmapedDict

SIZE: Final = 1 << 20  # of a new file: a few hundred series of a histogram
_OVERHEAD: Final = 32  # bytes of an entry beside its key, at most


def allocate(path: str) -> None:
    """Create a file of values, unless it exists; OSError if the disk is full."""
    if os.path.exists(path):
        return
    new = f"{path}.new"  # an empty file could not be read, so the file appears with its size
    try:
        with open(new, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, SIZE)
        os.rename(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


class AllocatedDict(MmapedDict):
    """The values of a file, as prometheus_client has them."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            allocate(filename)
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        if self._used + len(key.encode()) + _OVERHEAD > self._capacity:  # it is about to double the file
            os.posix_fallocate(self._f.fileno(), 0, 2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]
