"""The heap of a process that is going to be forked: the C library's, which takes all blocks above 512 bytes.

A child shares each page with its parent until one of them writes to it. Loading leaves holes between the blocks that stay,
and a child puts its own blocks there first. So the holes are filled before the first fork; only those of a page and more,
whose pages the kernel has back, stay. For glibc; with another C library nothing is done.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar, Final

M_ARENA_MAX: Final = -8  # of malloc.h
M_MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 65536
PAGE: Final = 4096
SIZES: Final = (2048, 1024, 512, 256, 128, 64, 24)
AT_ONCE: Final = 16
MAX_BLOCKS: Final = 65536  # of one size; holes are some thousands


class _Info(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_: ClassVar[Sequence[tuple[str, Any]]] = [
        ("arena", ctypes.c_size_t),  # bytes of the heap
        ("others", ctypes.c_size_t * 9),
    ]


def set_up() -> None:
    """Have children return what a long list has needed; 14 MB would stay with a worker after a list of 5,000 ports.

    One heap for all threads, which the interpreter's lock serializes anyway; and each large block has pages of its own,
    which are returned with it: by default glibc raises this threshold with the first large block that is freed.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def return_free_pages() -> None:
    """Give the kernel what only loading needed: each child would have it, too."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def fill_holes() -> None:
    """Fill the holes below the size of a page, for good. 1 MB here saves 3 MB in each child, which would copy the pages."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):  # glibc 2.33
        return
    libc.mallinfo2.restype = _Info
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    large = _filled(libc, PAGE)  # or the small blocks would be put there
    for size in SIZES:
        _filled(libc, size)
    for block in large:
        libc.free(block)


def _filled(libc: Any, size: int) -> list[int]:
    """Blocks of this size in all holes that are large enough: once there is none, the heap grows."""
    blocks: list[int] = []
    heap = libc.mallinfo2().arena
    while libc.mallinfo2().arena == heap and len(blocks) < MAX_BLOCKS:
        blocks += [libc.malloc(size) for _ in range(AT_ONCE)]
    return blocks
