"""A DNS server on loopback with configurable names and failures."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.rrset

Question = tuple[str, str]
"""A name without the trailing dot, and a record type: `("example.com", "MX")`."""


class FakeDns:
    """Runs during its `with` block; the process's resolver sends queries only to it, one attempt per question.

    `records` maps a question to the texts of its records. Names without any question do not exist. `fails` are
    names that get SERVFAIL, `silent` are names that get no response. `questions` holds the received ones in order.
    `before` is called before each response; it may wait for an event of the test.
    """

    def __init__(self) -> None:
        self.records: dict[Question, list[str]] = {}
        self.fails: set[str] = set()
        self.silent: set[str] = set()
        self.before: Callable[[], object] = lambda: None
        self.questions: list[Question] = []
        self._stopping = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._before: dns.resolver.Resolver | None = None

    def __enter__(self) -> FakeDns:
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = self._socket.getsockname()[1]
        self._before, dns.resolver.default_resolver = dns.resolver.default_resolver, resolver
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        dns.resolver.default_resolver = self._before
        self._stopping.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                packet, client = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            reply = self._reply(dns.message.from_wire(packet))
            if reply is not None:
                self.before()
                self._socket.sendto(reply.to_wire(), client)

    def _reply(self, query: dns.message.Message) -> dns.message.Message | None:
        question = query.question[0]
        name, kind = question.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(question.rdtype)
        self.questions.append((name, kind))
        if name in self.silent:
            return None
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        if name in self.fails:
            reply.set_rcode(dns.rcode.SERVFAIL)
        elif records := self.records.get((name, kind)):
            reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *records))
        elif name not in {known_name for known_name, _ in self.records}:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply
