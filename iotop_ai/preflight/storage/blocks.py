"""The reads of a check: blocks of a file, and parts of it that stand for small files."""

from __future__ import annotations

import errno
import mmap
import os
from random import Random


class _ForkedRandom:
    """Random numbers that differ between forked readers, but are the same in every check.

    The parent never calls ``below``, so each forked reader sets the seed of its own copy.
    """

    def __init__(self) -> None:
        self._random = Random()
        self._is_seeded = False

    def below(self, bound: int, number: int) -> int:
        """Return a random number from 0 to ``bound`` - 1.

        number: the operation's number; the number of a reader's first operation is its seed.
        """
        if not self._is_seeded:
            self._is_seeded = True
            self._random.seed(number)
        return int(self._random.random() * bound)  # takes a fifth of the time of randrange


class Blocks:
    """Reads single blocks from an open file.

    handle: the file's descriptor. span: the bytes of the file that are read, from its start. block: the size of a block
    in bytes. drop: whether each block is dropped from the page cache after its read.
    """

    def __init__(self, handle: int, span: int, block: int, *, drop: bool = False) -> None:
        self._handle, self._block, self._drop = handle, block, drop
        self._block_count = max(1, span // block)
        self._random = _ForkedRandom()

    def sequential_offset(self, number: int) -> int:
        """Return the offset of the sequential read with this number. The first block follows the last one."""
        return number % self._block_count * self._block

    def random_offset(self, number: int) -> int:
        """Return the offset of a random block."""
        return self._random.below(self._block_count, number) * self._block

    def sequential(self, buffer: mmap.mmap, number: int) -> int:
        """Read the block of this sequential operation into the buffer; return the number of bytes."""
        return self._read(buffer, self.sequential_offset(number))

    def random(self, buffer: mmap.mmap, number: int) -> int:
        """Read a random block into the buffer; return the number of bytes."""
        return self._read(buffer, self.random_offset(number))

    def _read(self, buffer: mmap.mmap, offset: int) -> int:
        size_read = os.preadv(self._handle, [buffer], offset)
        if self._drop:
            os.posix_fadvise(self._handle, offset, self._block, os.POSIX_FADV_DONTNEED)
        if not size_read:
            raise OSError(errno.EIO, "the file ended early")
        return size_read


class Slots:
    """Imitates small files with parts of one file: each operation opens the file, reads a part and closes it.

    folder, name: the descriptor of the file's folder, and the file's name in it. span: as in Blocks. size: the size of
    a part in bytes. direct: whether reads bypass the page cache; if they do not, each part is dropped from it.
    """

    def __init__(self, folder: int, name: str, span: int, size: int, *, direct: bool) -> None:
        self._folder, self._name, self._direct = folder, name, direct
        self._size = size
        self._slot_count = max(1, span // size)
        self._random = _ForkedRandom()
        self._flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)

    def read(self, buffer: mmap.mmap, number: int) -> int:
        """Read a random part, as if it were a small file; return the number of bytes."""
        offset = self._random.below(self._slot_count, number) * self._size
        handle = os.open(self._name, self._flags, dir_fd=self._folder)
        try:
            if not self._direct:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
            size_read = os.preadv(handle, [buffer], offset)
            if not self._direct:
                os.posix_fadvise(handle, offset, self._size, os.POSIX_FADV_DONTNEED)
            return size_read
        finally:
            os.close(handle)
