"""no_network refuses all that reaches for another machine, and names the address; the plugin brings it to users."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopmachine.testing import NetworkRefused, no_network
from loopmachine.testing.network import Guard, _guards

FAR = ("192.0.2.1", 9)  #: RFC 5737: nobody's


def with_socket(kind: int, act: Callable[[socket.socket], Any]) -> Any:
    """Do something with a new socket."""
    with socket.socket(socket.AF_INET, kind) as one:
        return act(one)


async def opened() -> Any:
    """A connection on asyncio."""
    return await asyncio.open_connection("loopmachine.invalid", 443)


REACHES: dict[str, tuple[Callable[[], Any], str]] = {
    "connect": (lambda: with_socket(socket.SOCK_STREAM, lambda one: one.connect(FAR)), "('192.0.2.1', 9)"),
    "connect_ex": (lambda: with_socket(socket.SOCK_STREAM, lambda one: one.connect_ex(FAR)), "('192.0.2.1', 9)"),
    "sendto": (lambda: with_socket(socket.SOCK_DGRAM, lambda one: one.sendto(b"x", FAR)), "('192.0.2.1', 9)"),
    "sendmsg": (
        lambda: with_socket(socket.SOCK_DGRAM, lambda one: one.sendmsg([b"x"], [], 0, FAR)),
        "('192.0.2.1', 9)",
    ),
    "create_connection": (lambda: socket.create_connection(("loopmachine.invalid", 443)), "'loopmachine.invalid'"),
    "gethostbyname": (lambda: socket.gethostbyname("loopmachine.invalid"), "'loopmachine.invalid'"),
    "gethostbyname_ex": (lambda: socket.gethostbyname_ex("loopmachine.invalid"), "'loopmachine.invalid'"),
    "gethostbyaddr": (lambda: socket.gethostbyaddr("192.0.2.1"), "'192.0.2.1'"),
    "getnameinfo": (lambda: socket.getnameinfo(FAR, 0), "('192.0.2.1', 9)"),
    "asyncio": (lambda: asyncio.run(opened()), "'loopmachine.invalid'"),
}


@pytest.mark.parametrize("way", REACHES)
def test_whatever_reaches_for_another_machine_is_refused(way: str) -> None:
    """Connections, datagrams and look-ups, in the words of a sentence that names the address."""
    reach, address = REACHES[way]
    with no_network(), pytest.raises(NetworkRefused) as caught:
        reach()
    assert str(caught.value).startswith(f"no_network: a test tried to reach {address}, and only loopback and Unix sock")


def test_every_thread_is_refused() -> None:
    """Not only that of the test."""
    raised: list[Exception] = []

    def reach() -> None:
        try:
            socket.create_connection(FAR)
        except NetworkRefused as error:
            raised.append(error)

    with no_network():
        thread = threading.Thread(target=reach)
        thread.start()
        thread.join()
    assert len(raised) == 1


def test_this_machine_is_not_refused(tmp_path: Path) -> None:
    """Neither loopback, by number or name, nor a Unix socket."""
    with no_network(), socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, port)).close()
        with socket.socket(socket.AF_UNIX) as there, socket.socket(socket.AF_UNIX) as here:
            there.bind(str(tmp_path / "s"))
            there.listen()
            here.connect(str(tmp_path / "s"))


def refused(event: str, *args: Any) -> bool:
    """Whether a guard that somebody wants refuses an event."""
    guard = Guard()
    guard(event, args)  # nobody wants it yet
    guard.wanted = 1
    try:
        guard(event, args)
    except NetworkRefused:
        return True
    return False


@pytest.mark.parametrize(
    ("host", "far"),
    [
        ("127.0.0.1", False),
        ("127.9.9.9", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("localhost", False),
        (b"localhost", False),
        ("0.0.0.0", False),
        ("", False),
        (None, False),
        ("192.0.2.1", True),
        ("::ffff:192.0.2.1", True),
        ("2001:db8::1", True),
        ("fe80::1%eth0", True),
        ("localhost.example", True),
        (7, True),
    ],
)
def test_a_host_is_here_or_far(host: Any, far: bool) -> None:
    """In a connection as in a look-up; what is no host of the internet is far too."""
    said = [refused("socket.connect", None, (host, 443)), refused("socket.getaddrinfo", host, 443, 0, 0, 0)]
    assert said == [far, far]


def test_other_events_are_none_of_its_business() -> None:
    """Nor are Unix sockets, whose address is a path."""
    assert [
        refused("open", "/etc/hosts", "r", 0),
        refused("socket.connect", None, "/run/socket"),
        refused("socket.sendmsg", None, None),
    ] == [False] * 3


def test_who_no_longer_wants_it_leaves_it_to_others() -> None:
    """It may be asked for more than once at a time, as by a test of a suite that runs under it."""
    with no_network():
        with no_network():
            pass
        with pytest.raises(NetworkRefused):
            socket.create_connection(FAR)


REACHING = """
import socket
import pytest
from loopmachine.testing import NetworkRefused

def reach():
    with pytest.raises(NetworkRefused):
        socket.create_connection(("192.0.2.1", 9))

reach()

@pytest.fixture(scope="session", autouse=True)
def session():
    reach()
    yield
    reach()

def test_it():
    reach()
"""
RELEASING = """
from loopmachine.testing.network import _guards

def test_release():
    _guards[0].wanted = 0

def test_more():
    pass
"""


def suite(folder: Path, tests: str, *options: str) -> str:
    """What pytest says of a suite of its own."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.mark.parametrize(("tests", "says"), [(REACHING, "1 passed"), (RELEASING, "1 failed, 1 passed")])
def test_the_suite_runs_under_it(tmp_path: Path, tests: str, says: str) -> None:
    """With the conftest of this project: what modules import, fixtures of any scope, tests; else a test fails."""
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    said = suite(tmp_path, tests)
    assert says in said, said


def test_no_part_of_this_suite_goes_without_it() -> None:
    """It is asked for by the session and again by this test."""
    assert _guards[0].wanted >= 2


TESTS = """
import socket
import pytest
from loopmachine.testing import NetworkRefused

def test_refused(no_network):
    with pytest.raises(NetworkRefused):
        socket.create_connection(("192.0.2.1", 9))

def test_not_refused():
    assert socket.gethostbyname("127.0.0.1") == "127.0.0.1"
"""


def test_users_have_the_fixture_by_installing(tmp_path: Path) -> None:
    """Without a conftest, for the tests that ask for it; this project's own ask by pytest's ini."""
    said = suite(tmp_path, TESTS, "--setup-show")
    assert ("2 passed" in said, said.count("SETUP    F no_network")) == (True, 1), said


def test_the_helpers_need_neither_pytest_nor_an_sdk() -> None:
    """They serve whoever tests with something else."""
    heavy = "anthropic asyncio google.genai hypothesis openai pytest"
    code = f"import sys, loopmachine.testing; print(*(name for name in {heavy.split()!r} if name in sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == []
