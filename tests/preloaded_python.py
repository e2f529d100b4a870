"""Runs Python programs in forks of one process that has imported the libraries of the service.

A program then needs half the CPU time of a new interpreter to start. It differs in nothing but its loaded modules, none
of which depends on the environment or on Django's settings. Needs Linux.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pickle
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

IS_AVAILABLE = hasattr(os, "pidfd_open")
PROJECT = Path(__file__).parents[1]
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG")
_MODULES = (
    "ada_url",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.hkdf",
    "django.contrib.admin.templatetags.admin_list",
    "django.contrib.admin.templatetags.log",
    "django.contrib.admindocs.views",
    "django.contrib.sessions.backends.signed_cookies",
    "django.core.management.commands.makemigrations",
    "django.core.management.commands.migrate",
    "django.core.wsgi",
    "django.db.backends.postgresql.base",
    "dns.resolver",
    "environ",
    "granian.server",
    "gunicorn.app.wsgiapp",
    "msgspec",
    "orjson",
    "procrastinate.worker",
    "rest_framework.permissions",
    "segno",
    "social_core.backends.twitch",
    "social_core.backends.zoom",
    "social_core.strategy",
    "watchfiles",
    # Modules of ours that can be imported without settings.
    "authsvc.audit.search",
    "authsvc.conf",
    "authsvc.diagnostics.proxy",
    "authsvc.management.command_line",
    "authsvc.server.startup",
    "mailer.gotemplate.tree",
    "tokens.jwt.access_tokens",
)
_NUMBER = struct.Struct("=q")
_MAX_REQUEST_BYTES = 1 << 17


class Process:
    """A running program, with the methods of `subprocess.Popen` that tests call."""

    def __init__(self, reports: int) -> None:
        self._reports = reports
        self.pid = self._read()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative if a signal has ended the program. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = self._read()
            os.close(self._reports)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        content = os.read(self._reports, _NUMBER.size)
        if not content:
            raise RuntimeError("the process that forks programs has ended")
        return int(_NUMBER.unpack(content)[0])


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    folder: Path,
    stdin: IO[bytes],
    stdout: IO[bytes],
    stderr: IO[bytes],
) -> Process:
    """Run `python *arguments` in `folder`, as the leader of a new session; `arguments` begin with a file or `-m`."""
    reports, writing = os.pipe()
    try:
        request = pickle.dumps((list(arguments), dict(env), str(folder)))
        streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        socket.send_fds(_control(), [request], [*streams, writing])
    finally:
        os.close(writing)
    return Process(reports)


def run(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    folder: Path = PROJECT,
    input: str = "",
    timeout: float = 100,  # seconds
) -> subprocess.CompletedProcess[str]:
    """The ended program and its output. Raises subprocess.TimeoutExpired."""
    if not IS_AVAILABLE:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, env=env, cwd=folder, input=input, timeout=timeout, capture_output=True, text=True, check=False
        )
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(input.encode())
        stdin.seek(0)
        process = start(arguments, env=env, folder=folder, stdin=stdin, stdout=stdout, stderr=stderr)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(list(arguments), status, stdout.read().decode(), stderr.read().decode())


@functools.cache
def _control() -> socket.socket:
    """Start the process that forks. It ends when this socket is closed, at the latest with this process."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = f"import {__name__} as p; p.run_program(p.fork_programs({far.fileno()}))"
    with far:
        _started.append(
            subprocess.Popen(
                [sys.executable, "-c", program],
                cwd=PROJECT,
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        )
    return near


_started: list[subprocess.Popen[bytes]] = []
"""Kept, because an object that is deleted warns about its running process."""


def fork_programs(control: int) -> list[str]:
    """Fork a process for each request and return the program's arguments in each of them."""
    _import_modules()
    running: dict[int, tuple[int, int]] = {}
    """Descriptor of a process → its id, and the descriptor for its exit status."""
    with socket.socket(fileno=control) as requests, selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    selector.unregister(key.fd)
                    _report_end(key.fd, *running.pop(key.fd))
                    continue
                request, descriptors, _flags, _address = socket.recv_fds(requests, _MAX_REQUEST_BYTES, 4)
                if not request:
                    os._exit(0)
                *streams, reports = descriptors
                pid = os.fork()
                if pid == 0:
                    for process, (_, status) in running.items():
                        os.close(process)
                        os.close(status)
                    os.close(reports)
                    arguments, env, folder = pickle.loads(request)
                    _adopt(env, folder, streams)
                    return list(arguments)
                for descriptor in streams:
                    os.close(descriptor)
                process = os.pidfd_open(pid)
                running[process] = pid, reports
                selector.register(process, selectors.EVENT_READ)
                os.write(reports, _NUMBER.pack(pid))


def run_program(arguments: list[str]) -> None:
    """Run the file, or the module after `-m`, like the interpreter."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


def _import_modules() -> None:
    from tests import production_libraries  # noqa: F401, PLC0415  (must precede the libraries)

    gc.disable()
    for name in _MODULES:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()


def _report_end(process: int, pid: int, reports: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(process)
    # The test may no longer be interested.
    with contextlib.suppress(BrokenPipeError):
        os.write(reports, _NUMBER.pack(status))
    os.close(reports)


def _adopt(env: dict[str, str], folder: str, streams: list[int]) -> None:
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.path[1:1] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
