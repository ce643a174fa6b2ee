"""Under which names the server answers: a page of somebody else must not reach it under a name of its own."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address


class Hosts:
    """The names in `Host` that are answered: those given, this machine's own where it is local, and addresses.

    An address is never the name of somebody else's page. A name `.example.org` stands for all names below it too.

    >>> hosts = Hosts(["eindiff.example.org"])
    >>> hosts.allows("eindiff.example.org:8765"), hosts.allows("10.1.2.3"), hosts.allows("evil.example")
    (True, True, False)
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = {name.lower() for name in (*names, "localhost", socket.gethostname())}

    def allows(self, host: str) -> bool:
        """Whether the value of `Host` is one of the server's names."""
        name = host.lower().rpartition(":")[0] if ":" in host.rpartition("]")[2] else host.lower()
        name = name.strip("[]").rstrip(".")
        parts = name.split(".")
        below = {"." + ".".join(parts[k:]) for k in range(len(parts))}
        return name in self.names or bool(below & self.names) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
