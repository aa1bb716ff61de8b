"""Reads a run folder, and nothing outside it: no link that leaves it is followed."""

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from rlkjax.audit.checks import LINE_LIMIT
from rlkjax.errors import ConsistencyError


def open_inside(folder: Path, file: str) -> BufferedReader:
    """Opens a regular file that lies inside a folder, following no link out of it.

    Args:
      folder: the resolved run folder.
      file: path inside it.

    Returns:
      The file, to be closed by the caller.

    Raises:
      ConsistencyError: missing, no regular file, not readable, or a link that leads outside.
    """
    try:
        target = (folder / file).resolve(strict=True)
        if not target.is_relative_to(folder):
            raise ConsistencyError(f"{file}: got a link that leaves the run folder, want a file")
        if not stat.S_ISREG(target.stat().st_mode):
            raise ConsistencyError(f"{file}: got something other than a file, want a file")
        return open(target, "rb")
    except FileNotFoundError:
        raise ConsistencyError(f"{file}: got no such file, want one") from None
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links
        raise _unreadable(file, error) from None


def read_inside(folder: Path, file: str) -> bytes:
    """All bytes of a regular file that lies inside a folder.

    Args:
      folder: the resolved run folder.
      file: path inside it.

    Returns:
      The bytes.

    Raises:
      ConsistencyError: missing, no regular file, not readable, or a link that leads outside.
    """
    with open_inside(folder, file) as opened:
        try:
            return opened.read()
        except (OSError, MemoryError) as error:
            raise _unreadable(file, error) from None


class Loader:
    """Reads large files of a run folder one after the other into the same memory."""

    def __init__(self, folder: Path) -> None:
        """Starts without memory.

        Args:
          folder: the resolved run folder.
        """
        self._folder = folder
        self._memory = bytearray()

    def __call__(self, file: str) -> memoryview:
        """All bytes of a regular file that lies inside the folder.

        Args:
          file: path inside it.

        Returns:
          The bytes, read-only; the next call overwrites them.

        Raises:
          ConsistencyError: missing, no regular file, not readable, a link that leads outside, or
            a file that grows or shrinks meanwhile.
        """
        with open_inside(self._folder, file) as opened:
            try:
                size = os.fstat(opened.fileno()).st_size
                if size > len(self._memory):
                    self._memory = bytearray(size)
                target = memoryview(self._memory)[:size]
                if opened.readinto(target) != size or opened.read(1):
                    raise ConsistencyError(f"{file}: got a file that changes while it is read")
                return target.toreadonly()
            except (OSError, MemoryError) as error:
                raise _unreadable(file, error) from None


def lines_inside(folder: Path, file: str) -> Iterator[bytes]:
    """The lines of a file, one at a time.

    Args:
      folder: the resolved run folder.
      file: path inside it.

    Yields:
      Lines with their line feeds. Of a line that is too long only the first bytes, one more than
      the limit, without a line feed at the end unless the file has one there.

    Raises:
      ConsistencyError: as `open_inside`, when the first line is asked for.
    """
    with open_inside(folder, file) as opened:
        try:
            while line := opened.readline(LINE_LIMIT + 1):
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = opened.readline(LINE_LIMIT)
                yield line + b"\n" if rest and rest is not line else line
        except OSError as error:
            raise _unreadable(file, error) from None


def names_inside(folder: Path, file: str = "") -> list[str]:
    """Names in a folder of the run.

    Args:
      folder: the resolved run folder.
      file: path of a folder inside it; empty for the run folder itself.

    Returns:
      Sorted names; none where there is no such folder.

    Raises:
      ConsistencyError: no folder, not readable, or a link that leads outside.
    """
    path = folder / file
    if not os.path.lexists(path):
        return []
    try:
        if not path.resolve(strict=True).is_relative_to(folder):
            raise ConsistencyError(f"{file}: got a link that leaves the run folder, want a folder")
        return sorted(entry.name for entry in path.iterdir())
    except (OSError, RuntimeError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: str, error: Exception) -> ConsistencyError:
    return ConsistencyError(
        f"{file}: got a file that cannot be read ({error}), want a readable one"
    )
