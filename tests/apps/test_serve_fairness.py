"""Many clients: slow requests of one do not make others wait, and what nobody waits for is not worked on."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

from apps.test_serve_command import started
from eindiff.apps.page.app import make_app
from eindiff.apps.page.hosts import Hosts
from eindiff.apps.page.turns import Job, Turns, is_slow
from eindiff.apps.page.workers import Workers
from pace import at_pace


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    process, address = started("--workers", "4", "--time-limit", "4")
    try:
        yield address
    finally:
        process.kill()
        process.communicate()


def sent(address: str, client: str, name: str = "", **ask: object) -> HTTPConnection:
    """A request of a client behind a proxy, on its way."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    headers = {"Content-Type": "application/json", "X-Forwarded-For": client, "X-Client": name}
    connection.request("POST", "/api/derive", json.dumps(ask), headers)
    return connection


def busy(address: str) -> int:
    with urllib.request.urlopen(f"{address}api/health", timeout=30) as answer:
        return json.load(answer)["busy"]


@pytest.mark.parametrize("order", [1, 3])
def test_with_slow_requests_of_one_client_another_is_answered_at_once(address, order):
    """Also if the slow ones are first derivatives, and if both clients share an address."""
    limit = at_pace(1)
    with ExitStack() as stack:
        for k in range(1, 13):
            slow = {"expression": f"tr(X^{k + order}9999999)", "wrt": ["X"], "order": order}
            stack.enter_context(closing(sent(address, "10.0.0.1", "slow", **slow)))
        time.sleep(0.3)
        for k, (client, name) in enumerate([("10.0.0.2", ""), ("10.0.0.1", "other"), ("10.0.0.3", "")]):
            began = time.monotonic()
            with closing(sent(address, client, name, expression=f"{k + order}*norm2(A*x - b)^2", wrt=["x"])) as quick:
                answer = quick.getresponse()
                assert answer.status == 200
                assert answer.headers["Limits"] == "seconds=4, slow=2, waiting=24"
            assert time.monotonic() - began < limit
            assert busy(address) >= 2


def test_work_that_nobody_waits_for_ends(address):
    limit = at_pace(2)
    with closing(sent(address, "10.0.0.4", expression="tr(X^88888888)", wrt=["X"], order=3)):
        until = time.monotonic() + 1.5 * limit
        while not busy(address) and time.monotonic() < until:
            time.sleep(0.02)
        assert busy(address)
    began = time.monotonic()
    while busy(address) and time.monotonic() < began + 2.5 * limit:
        time.sleep(0.02)
    assert time.monotonic() - began < limit  # the limit is 4 s


# Turns


def test_first_derivatives_are_quick():
    assert not is_slow("derive", {"wrt": ["x", "y"]}) and not is_slow("code", {"order": 1}) and not is_slow("parse", {})
    assert is_slow("derive", {"order": 2}) and is_slow("derive", {"wrt": ["x,y"]})


def test_clients_take_turns_and_leave_a_worker_to_quick_requests():
    turns = Turns(4)
    for k in range(3):
        turns.put(Job("derive", {"k": k}, "a", is_slow=True))
    for k in range(2):
        turns.put(Job("derive", {"k": k}, "b", is_slow=True))
    turns.put(Job("derive", {"k": 9}, "a"))
    begun = [turns.next() for _ in range(5)]
    assert [(job.address, job.ask["k"]) for job in begun if job] == [("a", 0), ("b", 0), ("a", 1), ("a", 9)]
    assert turns.next() is None and len(turns) == 2
    turns.running.remove(begun[0])
    assert (job := turns.next()) is not None and job.address == "b"  # it waits for longer than a, which has had two


def test_a_quick_request_that_is_slow_waits_for_its_turn_among_slow_ones():
    turns = Turns(3)
    first, second = Job("derive", {}, "a", is_slow=True), Job("derive", {}, "a")
    turns.put(first)
    turns.put(second)
    assert {turns.next(), turns.next()} == {first, second}
    assert not turns.slowed(second) and turns.running == {first} and len(turns) == 1
    turns.running.remove(first)
    assert turns.next() is second


# Names of the server


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8765", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("EINDIFF.example.org", 200), ("a.b.net:1", 200),
     ("evil.example", 403), ("eindiff.example.org.evil.example", 403), ("b.net.evil", 403), ("", 403)],
)  # fmt: skip
def test_other_names_are_refused(host, status):
    app = make_app(Workers(1), lambda event, **fields: None, Hosts(["eindiff.example.org", ".b.net"]))
    answer = TestClient(app).get("/api/examples", headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or "--allow-host" in answer.json()["hint"]
