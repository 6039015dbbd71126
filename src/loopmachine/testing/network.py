"""No network: sockets that may reach nothing but this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from typing import Final as Constant

# The audit events of what reaches out. Source: docs.python.org/3/library/audit_events.html.
_SENT: Constant = ("socket.connect", "socket.sendto", "socket.sendmsg")  #: of a socket and an address
_LOOKED_UP: Constant = (  #: of a host, or of its address and port
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.getnameinfo",
)


class NetworkRefused(RuntimeError):
    """Something tried to reach the network. It is no OSError, which a client would take for a failure that may pass."""


class Guard:
    """A hook of the interpreter, which can't be taken out again: while nobody wants it, it lets everything pass."""

    def __init__(self) -> None:
        self.wanted = 0  #: by how many

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise NetworkRefused for an event that reaches for another machine."""
        if not self.wanted:
            return
        if event in _SENT and isinstance(args[1], tuple):  # a Unix socket has a path
            _refuse(args[1])
        elif event in _LOOKED_UP:
            _refuse(args[0])


_guards: list[Guard] = []  #: the one that is hooked in, if any


@contextmanager
def no_network() -> Iterator[None]:
    """Refuse every connection and every look-up of a name, in all threads, but for loopback and Unix sockets.

    What tries raises NetworkRefused, which names the address. Other processes are not held back.
    """
    if not _guards:
        _guards.append(Guard())
        sys.addaudithook(_guards[0])
    _guards[0].wanted += 1
    try:
        yield
    finally:
        _guards[0].wanted -= 1


def _refuse(address: Any) -> None:
    host = address[0] if isinstance(address, tuple) else address
    if not _is_here(host.decode() if isinstance(host, bytes) else host):
        raise NetworkRefused(
            f"no_network: a test tried to reach {address!r}, and only loopback and Unix sockets may be; "
            "a ScriptedModel or a wire_server can stand for a provider"
        )


def _is_here(host: Any) -> bool:
    """Whether a host is this machine, also where it is left out."""
    if host in (None, "", "localhost"):
        return True
    try:
        ip = ip_address(host)
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified
