"""Files and folders that appear whole or not at all.

What is being written lies in a *workshop*: a folder beside the target, with a random name, that only its owner may
enter. Nobody can guess its name and put a link in its place, two threads never meet in one, and moving the finished
work out of it is one rename. A workshop is locked for as long as its process lives, whatever ends that. One that is
not locked was left behind by a process that was killed, and is removed when the next one begins in the same folder.

Standard library only: commands import this before they know that they will need anything else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Name = str | os.PathLike[str]

PREFIX, SUFFIX = ".rankwolf-", ".part"
# A folder gets its last name when it is locked, so that none without a lock is taken for a dead one.
UNLOCKED_SUFFIX, A_MOMENT = ".new", 60.0
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def whole(path: Name, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary path with the name of ``path``, for a file or a folder; it becomes ``path`` when the block ends well.

    Otherwise nothing is left, and what ``path`` was before is untouched. What is replaced hands on its permissions. An
    error of the file system names ``path``, not the temporary path.
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
    """A locked folder of this process alone, beside ``target``; it is removed at the end with what is still in it."""
    try:
        remove_leftovers(target.parent)
        folder, lock = _locked_folder(target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        yield folder
    except OSError as error:
        raise _renamed(error, folder, target) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


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
    """Wait until a file is on the disk; not for each of the thousands that a folder may hold."""
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove the workshops in ``folder`` whose processes are dead, if they are this user's own."""
    with os.scandir(folder) as entries:
        ours = [entry for entry in entries if entry.name.startswith(PREFIX)]
    for entry in (entry for entry in ours if entry.name.endswith(UNLOCKED_SUFFIX)):
        with suppress(OSError):  # empty, and a moment old in a process that lives
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - A_MOMENT:
                os.rmdir(entry.path)
    for entry in (entry for entry in ours if entry.name.endswith(SUFFIX)):
        with suppress(OSError):  # gone by now, or locked: somebody works in it
            if (
                not entry.is_dir(follow_symlinks=False)
                or entry.stat(follow_symlinks=False).st_uid != os.geteuid()
            ):
                continue
            lock = _lock(entry.path)
            try:
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(lock)


def _random_word() -> str:
    """16 letters that nobody can guess: ``secrets.token_hex(8)`` without the 8 ms that its import takes."""
    return os.urandom(8).hex()


def _locked_folder(parent: Path) -> tuple[Path, int]:
    name = f"{PREFIX}{_random_word()}"
    fresh, folder = parent / f"{name}{UNLOCKED_SUFFIX}", parent / f"{name}{SUFFIX}"
    try:
        fresh.mkdir(0o700)
        lock = _lock(os.fspath(fresh))
        os.rename(fresh, folder)
    except BaseException:  # Ctrl-C among them
        for made in (fresh, folder):
            with suppress(OSError):
                made.rmdir()
        raise
    return folder, lock


def _lock(folder: str) -> int:
    """Lock a folder until the process ends or closes the number that is returned; an OSError where another has it.

    A file system that knows no such locks gives none to anybody, and there leftovers stay.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK) or folder.endswith(
            SUFFIX
        ):
            os.close(number)
            raise
    return number


def _exchange(new: Path, target: Path) -> None:
    """Put a folder in the place of another: both change places in one step where the system can do that.

    The old one is then in the workshop, and removed with it. Otherwise it makes room first, under a name that nobody
    removes, so that a process that is killed between the two steps loses nothing.
    """
    if _renamed_at_once(new, target):
        return
    aside = target.with_name(f"{PREFIX}{_random_word()}.old")
    try:
        os.replace(target, aside)
        os.replace(new, target)
    finally:
        if os.path.lexists(aside) and not os.path.lexists(target):  # broken off in between
            os.replace(aside, target)
        elif aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def _renamed_at_once(new: Path, target: Path) -> bool:
    """Linux's renameat2 with RENAME_EXCHANGE; False where there is none, or not for this file system."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(new), here, os.fsencode(target), exchange) == 0)


def _renamed(error: OSError, folder: Path, target: Path) -> OSError:
    """An error about the workshop, with the name that the user gave; a full disk often names nothing at all."""
    if error.errno in FULL:  # whichever part of it was being written, and whatever a library made of it
        return OSError(error.errno, os.strerror(error.errno), str(target))
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    if error.errno is None or name is None or not Path(name).is_relative_to(folder):
        return error
    return OSError(error.errno, error.strerror, str(target.parent / Path(name).relative_to(folder)))
