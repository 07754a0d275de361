"""Where processes listen: a server of the study can be reached from this machine alone, its inner sockets included."""

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

import psutil


class Listening(NamedTuple):
    """A TCP socket on which a process listens."""

    pid: int
    ip: str
    port: int

    @property
    def open(self) -> bool:
        """Whether other machines could reach it."""
        address = ipaddress.ip_address(self.ip.split("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return not (mapped or address).is_loopback


def list_listening(pids: Iterable[int]) -> list[Listening]:
    """Return every TCP socket on which one of the processes listens; one that has ended has none."""
    found = []
    for pid in pids:
        try:
            sockets = psutil.Process(pid).net_connections(kind="tcp")
        except psutil.Error:
            continue
        found += [Listening(pid, *item.laddr) for item in sockets if item.status == psutil.CONN_LISTEN]
    return found
