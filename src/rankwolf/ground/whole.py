"""Files and folders that appear whole or not at all.

What is being written lies in a *workshop*: a folder beside the target, with a random name, that only its owner may
enter. Nobody can guess its name and put a link in its place, two threads never share one, and moving the finished
work out of it is one rename. A workshop stays locked until its process ends, in whatever way. A workshop without a
lock was left behind by a process that was killed; it is removed when another one is made in the same folder.

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
# A workshop is made under a first name and gets its final one once it is locked, so that no process takes it for a
# leftover before that. Under the first name it is a leftover after so many seconds.
UNLOCKED_SUFFIX, A_MOMENT = ".new", 60.0
FULL = (errno.ENOSPC, errno.EDQUOT)


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
    """Wait until a file is on the disk. A folder, which may hold thousands of files, is not waited for."""
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove the workshops in ``folder`` whose processes are dead, if they are this user's own."""
    with os.scandir(folder) as entries:
        ours = [entry for entry in entries if entry.name.startswith(PREFIX)]
    for entry in (entry for entry in ours if entry.name.endswith(UNLOCKED_SUFFIX)):
        with suppress(OSError):  # it is empty, and a living process renames it within a moment
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
    """16 hexadecimal digits that nobody can guess: ``secrets.token_hex(8)`` without the 8 ms that its import takes."""
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
    """Lock a folder until the process ends or closes the returned descriptor; an OSError where it is locked already.

    On a file system without such locks a new workshop stays unlocked, and leftovers are not removed.
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
    """Put the folder ``new`` in the place of ``target``: the two are exchanged in one step where the system can.

    The old folder is then in the workshop, and removed with it. Elsewhere it is first moved aside, to a name that
    :func:`remove_leftovers` leaves alone, so that nothing is lost if the process is killed between the two steps.
    """
    if _renamed_at_once(new, target):
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


def _renamed_at_once(new: Path, target: Path) -> bool:
    """Exchange two paths by Linux's renameat2; False where the system or the file system cannot."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(new), here, os.fsencode(target), exchange) == 0)


def _renamed(error: OSError, folder: Path, target: Path) -> OSError:
    """The same error with the path that the user gave in place of the workshop's."""
    if error.errno in FULL:  # such an error often names no file, or one that a library made
        return OSError(error.errno, os.strerror(error.errno), str(target))
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    if error.errno is None or name is None or not Path(name).is_relative_to(folder):
        return error
    return OSError(error.errno, error.strerror, str(target.parent / Path(name).relative_to(folder)))
