"""Files and folders that appear whole or not at all, and the sentence for what stopped a write."""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rlkjax.errors import InputError, MachineError, RlkError

TEMPORARY = ".part"  # suffix of what is not finished; whoever finds one may remove it

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}
_PARENTLESS = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST}  # where the folder above may be the cause
# What is there, and what should be.
_MISPLACED = {
    errno.ENOENT: "got no such file or folder, want one that exists",
    errno.ENOTDIR: "got a file on the way there, want folders only",
    errno.EISDIR: "got a folder, want a file",
    errno.EEXIST: "got one that exists already, want a new name",
    errno.ELOOP: "got links that lead in a circle, want a file or folder",
    errno.ENAMETOOLONG: "got a name that is too long, want a shorter one",
}


def explain(error: OSError, path: Path) -> RlkError:
    """The typed error for a failed read or write.

    Args:
      error: what the system said.
      path: what was read or written.

    Returns:
      `MachineError` when the device is full or failing, `InputError` when the place is wrong.
    """
    said = error.strerror or str(error)
    if error.errno in _FULL:
        return MachineError(
            f"{path}: got no space to write ({said}), want room for the whole file; free some "
            "space and resume, for all that was complete before is still valid"
        )
    if error.errno in _REFUSED:
        return InputError(
            f"{path}: got no permission ({said}), want a place that can be read and written; "
            "choose another run folder or change its permissions"
        )
    if error.errno in _PARENTLESS and not os.path.isdir(path.parent):
        return InputError(
            f"{path}: got no folder {path.parent}, want one that exists; make it or check the path"
        )
    if error.errno in _MISPLACED:
        return InputError(f"{path}: {_MISPLACED[error.errno]}; check the path")
    return MachineError(
        f"{path}: got an input/output failure ({said}), want a working disk; "
        "check the device and resume"
    )


def sync_folder(path: Path) -> None:
    """Makes the names in a folder last through a power cut.

    Args:
      path: the folder.

    Raises:
      OSError: the folder cannot be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, data: bytes) -> None:
    # A new file or none: whatever link lies there is never written through.
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, data: bytes) -> None:
    """Writes a file by way of a temporary sibling: readers see the old bytes or all of the new.

    Args:
      path: the file; its folder exists.
      data: its bytes.

    Raises:
      MachineError: no space, or a failing device; the old file is untouched.
      InputError: the place cannot be written.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise explain(error, path) from error


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes a folder of files by way of a temporary sibling, all of it or nothing.

    Args:
      path: the folder to make; its parent is made if missing, and the folder itself must not exist.
      files: name -> bytes.

    Raises:
      MachineError: no space, or a failing device; nothing is left behind.
      InputError: the place cannot be written, or the folder exists.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_folder(temporary)
        temporary.mkdir()
        for name, data in sorted(files.items()):
            _write_synced(temporary / name, data)
        sync_folder(temporary)
        os.rename(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise explain(error, path) from error


def remove_folder(path: Path) -> None:
    """Removes a folder and what is in it; nothing happens where there is none.

    Args:
      path: the folder.

    Raises:
      OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
