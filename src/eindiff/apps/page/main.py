"""The command `eindiff serve`."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from typing import Any

from eindiff.apps.page import limits
from eindiff.apps.page.hosts import Hosts

MISSING = "eindiff: the page needs FastAPI and uvicorn, which are not installed: pip install 'eindiff[serve]'"
SPARE = 2  # workers more than cores, so that a few long requests do not hold up the short ones
LOCAL = ("127.0.0.1", "::1", "localhost")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="eindiff serve",
        description="A page for derivatives in the browser, on this machine; nothing leaves it. With --host 0.0.0.0 "
        "others can use it too.",
        allow_abbrev=False,
    )
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
    made.add_argument("--port", type=_port, default=8765, help="the port (8765); 0 takes a free one")
    made.add_argument("--time-limit", type=_seconds, default=limits.TIME, metavar="S", help="seconds a request (5)")
    made.add_argument(
        "--workers", type=_count, metavar="N", help="processes that do the work (two more than there are cores)"
    )
    made.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name that others reach the page under, as eindiff.example.org, or .example.org for all below it; "
        "may be given several times. Addresses and this machine's own name are allowed",
    )  # fmt: skip
    made.add_argument("--no-open", action="store_true", help="do not open a browser")
    made.add_argument("--log", action="store_true", help="a line of JSON a request, also for this machine only")
    return made


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number up to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.05 to 3600")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes from 1 to 256")
    return int(text)


def main(argv: Sequence[str]) -> int:
    """Run the command until it is interrupted; gives the exit status."""
    found = parser().parse_args(argv)
    try:
        import fastapi  # noqa: F401  # optional, as is uvicorn: without them there is no page
        import uvicorn  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        return 2
    try:
        listening = _listen(found.host, found.port)
    except OSError as error:
        reason = error.strerror or str(error)
        print(f"eindiff: cannot listen on {found.host}, port {found.port}: {reason}", file=sys.stderr)
        print("eindiff: another port is taken with --port, a free one with --port 0", file=sys.stderr)
        return 2
    with listening:
        _run(listening, found)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that a port that is taken is known before anything else starts."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(256)
    except OSError:
        made.close()
        raise
    return made


def _run(listening: socket.socket, found: argparse.Namespace) -> None:
    import uvicorn

    from eindiff.apps.page.app import log, make_app  # they need what may not be installed
    from eindiff.apps.page.workers import Workers, cores  # as late as the application

    local = found.host in LOCAL
    say = log if found.log or not local else _quiet
    host = f"[{found.host}]" if ":" in found.host else found.host
    address = f"http://{host}:{listening.getsockname()[1]}/"

    class Server(uvicorn.Server):
        """Says where it is once it answers, and opens a browser there."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.should_exit:
                return
            print(f"eindiff is at {address}  (Ctrl-C ends it)", flush=True)
            if local and not found.no_open:
                _open(address)

        def handle_exit(self, sig: int, frame: Any) -> None:
            workers.interrupt()  # so that nobody waits for an answer, and the server can end
            super().handle_exit(sig, frame)

    _log_errors(say)
    workers = Workers(found.workers or cores() + SPARE, found.time_limit, log=say)
    config = uvicorn.Config(
        make_app(workers, say, Hosts([*found.allow_host, found.host])), log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=2, limit_concurrency=2000, ws="none",
    )  # fmt: skip
    try:
        Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        workers.stop()


def _log_errors(say: Callable[..., None]) -> None:
    """Warnings and errors of the server go to the log, without what was filled in."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[0] if record.exc_info else None
            say("server", level=record.levelname, message=str(record.msg), error=error.__name__ if error else "")

    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [Handler(logging.WARNING)], False


def _quiet(event: str, **fields: object) -> None:
    """No log on one's own machine."""


def _open(address: str) -> None:
    """Open a browser, if there is one; a thread, as some commands wait for it to end."""

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
