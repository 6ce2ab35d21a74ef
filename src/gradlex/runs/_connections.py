"""The sockets between processes: which interface they listen on, and that a machine that is cut off is noticed."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_VARIABLE = "GLOO_SOCKET_IFNAME"
_GET_ADDRESS = 0x8915  # Linux's SIOCGIFADDR

IDLE, PROBES, APART = 10, 4, 5
"""A machine that has been silent for so many seconds is asked so often, so many seconds apart: half a minute in all."""


@contextmanager
def listening(host: str | None = None) -> Iterator[None]:
    """Let gloo listen on the interface that leads to the host, by default on loopback, unless the user has said where.

    Where that cannot be told, gloo decides by itself. The environment is left as it was.
    """
    interface = ("lo0" if sys.platform == "darwin" else "lo") if host is None else interface_to(host)
    if _VARIABLE in os.environ or interface is None or sys.platform == "win32":
        yield
        return
    os.environ[_VARIABLE] = interface
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)


def interface_to(host: str) -> str | None:
    """The interface of this machine that packets for the host leave by; None where it cannot be told."""
    if sys.platform != "linux":
        return None
    import fcntl  # noqa: PLC0415  # not on Windows

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing: a route is looked up
            own = probe.getsockname()[0]
            if own.startswith("127."):  # a name that this machine has for itself alone
                return None
            for _, name in socket.if_nameindex():
                with suppress(OSError):  # it has no address
                    packed = struct.pack("256s", name.encode())
                    if socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _GET_ADDRESS, packed)[20:24]) == own:
                        return name
    except OSError:  # no such host, or no way to it
        pass
    return None


@contextmanager
def kept_alive() -> Iterator[None]:
    """Have the connections that are made inside notice when the other machine is gone without a word.

    A process that waits for another machine's candidates sends nothing meanwhile, so that a cut cable would look like
    a long training. gloo has no setting for it, but a socket's options can be set from outside.
    """
    before = _sockets()
    yield
    for number in _sockets() - before:
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            if (
                connection.family in (socket.AF_INET, socket.AF_INET6)
                and connection.type == socket.SOCK_STREAM
            ):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in (
                    ("TCP_KEEPIDLE", IDLE),
                    ("TCP_KEEPINTVL", APART),
                    ("TCP_KEEPCNT", PROBES),
                ):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
                # Something may have been sent and not acknowledged: then the kernel would try for a quarter of an hour.
                patience = 1000 * (IDLE + PROBES * APART)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience)


def _sockets() -> set[int]:
    """This process's sockets; none where the system does not list them."""
    found = set()
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # closed in the meantime
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    found.add(int(name))
    return found
