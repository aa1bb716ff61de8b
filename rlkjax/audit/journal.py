"""The append-only file of lines behind a ledger and its metrics, and the lock of a run folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rlkjax.atomic import explain, sync_folder
from rlkjax.audit.ledger import differing_key
from rlkjax.errors import ConsistencyError, InputError, RlkError


class Journal:
    """An append-only file of lines. Lines that are in it already must be appended again, equal.

    Appending a line that the file holds at that place only compares it; so a resumed run proves
    that it repeats what was recorded, and goes on writing after the last line.

    Attributes:
      torn: bytes of an unfinished last line that were cut off when the file was opened.
    """

    def __init__(self, path: Path) -> None:
        """Opens or makes the file.

        Args:
          path: the file; its folder exists.

        Raises:
          InputError: the place cannot be read and written.
          MachineError: the device is full or failing.
        """
        self._path = Path(path)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            data = self._path.read_bytes()
            self._size = data.rfind(b"\n") + 1
            self.torn = data[self._size :]
            if self.torn:
                os.ftruncate(self._descriptor, self._size)
            if not data:
                sync_folder(self._path.parent)
        except OSError as error:
            raise explain(error, self._path) from error
        self._lines = data[: self._size].split(b"\n")[:-1]
        self._place = 0
        self._held = len(self._lines)

    @property
    def count(self) -> int:
        """Lines that were appended or taken so far."""
        return self._place

    @property
    def pending(self) -> int:
        """Lines in the file that have not been appended again or taken yet."""
        return self._held - self._place

    @property
    def upcoming(self) -> bytes | None:
        """The line that has to be appended again next, or None where the file ends."""
        return self._lines[self._place] if self.pending else None

    def take(self, count: int) -> list[bytes]:
        """Accepts the next lines of the file as they are, such as those before a checkpoint.

        Args:
          count: how many.

        Returns:
          The lines, without line ends.

        Raises:
          ConsistencyError: the file holds fewer.
        """
        if count > self.pending:
            raise ConsistencyError(
                f"{self._path}: got {self._held} lines, want at least {self._place + count}; "
                "lines are missing, so restore the file or resume from an earlier checkpoint"
            )
        lines = self._lines[self._place : self._place + count]
        self._place += count
        return lines

    def append(self, line: bytes) -> None:
        """Writes a line, or compares it with the line that the file holds at this place.

        Args:
          line: the bytes, without a line end.

        Raises:
          ConsistencyError: the file holds another line; names its index and first differing key.
          InputError: the line contains a line end, or the place cannot be written.
          MachineError: no space; the file still ends with its last complete line.
        """
        if b"\n" in line:
            raise InputError("line: got a line end inside, want one line; append them one by one")
        if self.pending:
            self._compare(line)
        else:
            self._write(line + b"\n")
            self._held += 1
        self._place += 1

    def drop_pending(self) -> list[bytes]:
        """Cuts off the lines not taken yet: for a run that goes on under another fingerprint.

        Returns:
          The lines that were cut off.

        Raises:
          InputError: the place cannot be written.
          MachineError: the device is failing.
        """
        dropped = self._lines[self._place :]
        size = self._size - sum(len(line) + 1 for line in dropped)
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise explain(error, self._path) from error
        self._size, self._held = size, self._place
        self._lines = self._lines[: self._place]
        return dropped

    def fsync(self) -> None:
        """Makes all lines last through a power cut.

        Raises:
          MachineError: the device is full or failing.
        """
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise explain(error, self._path) from error

    def close(self) -> None:
        """Syncs and closes the file; nothing may be appended afterwards."""
        if self._descriptor < 0:
            return
        try:
            self.fsync()
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _compare(self, line: bytes) -> None:
        expected = self._lines[self._place]
        difference = differing_key(expected, line)
        if difference is not None:
            key, want, got = difference
            raise ConsistencyError(
                f"{self._path.name}, line {self._place}: got {key} = {got!r}, want {want!r} as "
                "recorded before; this run does not repeat the recorded one, so compare the "
                "fingerprints of the machine and the files of the run"
            )

    def _write(self, data: bytes) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            raise self._undo(error) from error
        self._size += len(data)

    def _undo(self, error: OSError) -> RlkError:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._size)
        return explain(error, self._path)


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Holds the run folder for one writer; the lock ends with the process, also when it is killed.

    Args:
      folder: the run folder.

    Yields:
      Nothing.

    Raises:
      InputError: another process holds it, or the folder cannot be written.
    """
    path = Path(folder) / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise explain(error, path) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"run folder {folder}: got a folder that another process is writing, want one "
                "writer; wait for it or choose another run folder"
            ) from error
        yield
    finally:
        os.close(descriptor)
