"""Files and folders that appear whole or not at all.

What is being written lies in a *workshop*: a folder beside the target, with a random name, that only its owner may
enter. Nobody can guess its name and put a link in its place, two threads never share one, and moving the finished
work out of it is one rename. A workshop stays locked until its process ends, in whatever way. A workshop without a
lock was left behind by a process that was killed; it is removed when another one is made in the same folder.

Standard library only: commands import this before they know that they will need anything else.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rankwolf import platform

Name = str | os.PathLike[str]

PREFIX, SUFFIX = ".rankwolf-", ".part"
# The file in a workshop that is locked while its process lives, and what is in it from then on. A workshop without that
# is a leftover after so many seconds: its process died as it made the folder.
LOCK, LOCKED, A_MOMENT = "lock", b"locked", 60.0


@contextmanager
def whole(path: Name, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary path with the name of ``path``, for a file or a folder; it becomes ``path`` when the block ends well.

    Otherwise nothing is left of it, and what was at ``path`` before is untouched. The new file or folder takes over the
    permissions of the one that it replaces. An error of the file system names ``path``, not the temporary path.
    """
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise ValueError(f"{os.fspath(path)!r} exists already. Remove it, or give overwrite=True.")
    with workshop(target) as folder:
        made = folder / target.name
        yield made
        flush(made)
        replace(made, target)


@contextmanager
def workshop(target: Path) -> Iterator[Path]:
    """A locked folder beside ``target``, for this block alone; it is removed at the end with what is still in it."""
    folder, lock, is_ours = target.parent / f"{PREFIX}{_random_word()}{SUFFIX}", None, True
    try:
        try:
            remove_leftovers(target.parent)
            lock = _lock_in(folder)
        except OSError as error:
            is_ours = not isinstance(error, FileExistsError)
            raise OSError(error.errno, error.strerror, str(target)) from error
        try:
            yield folder
        except OSError as error:
            raise _renamed(error, folder, target) from error
    finally:
        if is_ours:
            try:
                _end(folder, lock)
            except BaseException:  # a signal came in between
                _end(folder, lock)
                raise


def replace(new: Path, target: Path) -> None:
    """Put ``new`` in the place of ``target``, a file or a folder, in one step, with the permissions of the old one."""
    try:
        before = os.lstat(target).st_mode
    except FileNotFoundError:
        os.replace(new, target)
        return
    if stat.S_IFMT(before) == stat.S_IFMT(os.lstat(new).st_mode):
        new.chmod(stat.S_IMODE(before))
    # A file never takes the place of a folder: os.replace raises then.
    (_exchange if new.is_dir() else os.replace)(new, target)


def flush(path: Path) -> None:
    """Wait until a file is on the disk. A folder, which may hold thousands of files, is not waited for."""
    if path.is_file():
        platform.flush_to_disk(path)


def remove_leftovers(folder: Path) -> None:
    """Remove the workshops in ``folder`` whose processes are dead, if they are this user's own."""
    with os.scandir(folder) as entries:
        ours = [entry for entry in entries if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX)]
    for entry in ours:
        with suppress(OSError):  # gone by now
            about = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(about.st_mode) or not platform.is_own(about):
                continue
            if os.path.exists(place := os.path.join(entry.path, LOCK)) and not os.path.isfile(place):
                continue  # a pipe: not ours
            try:
                with open(place, "r+b") as file:
                    is_dead = platform.lock(file) and (file.read() == LOCKED or _is_old(about))
            except FileNotFoundError:  # its process has just made it, or died as it did so
                is_dead = _is_old(about)
            if is_dead:
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_old(about: os.stat_result) -> bool:
    return about.st_mtime < time.time() - A_MOMENT


def _random_word() -> str:
    """16 hexadecimal digits that nobody can guess: ``secrets.token_hex(8)`` without the 8 ms that its import takes."""
    return os.urandom(8).hex()


def _lock_in(folder: Path) -> IO[bytes]:
    """Make the folder; the locked file in it says that its process is alive."""
    folder.mkdir(0o700)
    lock = open(folder / LOCK, "xb", buffering=0)  # noqa: SIM115 - open as long as the folder is used
    try:
        platform.lock(lock)
        lock.write(LOCKED)
    except BaseException:
        lock.close()
        raise
    return lock


def _end(folder: Path, lock: IO[bytes] | None) -> None:
    if lock is not None:
        lock.close()  # first: Windows removes no open file
    shutil.rmtree(folder, ignore_errors=True)


def _exchange(new: Path, target: Path) -> None:
    """Put the folder ``new`` in the place of ``target``: the two are exchanged in one step where the system can.

    The old folder is then in the workshop, and removed with it. Elsewhere it is first moved aside, to a name that
    :func:`remove_leftovers` leaves alone, so that nothing is lost if the process is killed between the two steps.
    """
    if platform.exchange(new, target):
        return
    aside = target.with_name(f"{PREFIX}{_random_word()}.old")
    try:
        os.replace(target, aside)
        os.replace(new, target)
    finally:
        if os.path.lexists(aside) and not os.path.lexists(target):  # the second step failed
            os.replace(aside, target)
        elif aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _renamed(error: OSError, folder: Path, target: Path) -> OSError:
    """The same error with the path that the user gave in place of the workshop's."""
    if (
        error.errno is not None and error.errno in platform.FULL
    ):  # such an error often names no file, or one that a library made
        return OSError(error.errno, os.strerror(error.errno), str(target))
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    if error.errno is None or name is None or not Path(name).is_relative_to(folder):
        return error
    return OSError(error.errno, error.strerror, str(target.parent / Path(name).relative_to(folder)))
