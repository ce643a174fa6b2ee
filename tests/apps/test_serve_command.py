"""The command `eindiff serve`: its options, its messages, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from eindiff.apps import cli
from pace import at_pace

COMMAND = [sys.executable, "-m", "eindiff", "serve", "--no-open"]


def started(*options: str) -> tuple[subprocess.Popen, str]:
    """The server in a process of its own, and its address."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found is not None, line
    return process, found[0]


def refused(request: urllib.request.Request) -> int:
    """The status of a request that is not answered."""
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def children(pid: int) -> list[int]:
    """All processes that come from one, where the system tells."""
    found = []
    for task in os.listdir("/proc"):
        if task.isdigit():
            try:
                with open(f"/proc/{task}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found += [int(task), *children(int(task))]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes")
def test_runs_and_ends():
    process, address = started("--workers", "1", "--log", "--time-limit", "3")
    try:
        body = json.dumps({"expression": "secret'*A*secret", "wrt": ["secret"]}).encode()
        request = urllib.request.Request(f"{address}api/derive", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["blocks"][0]["text"] == "A*secret + A'*secret"
            assert "server" not in answer.headers
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"<html" in answer.read()
        with urllib.request.urlopen(f"{address}api/settings", timeout=30) as answer:
            assert json.load(answer)["time_limit"] == 3
        below = children(process.pid)
        assert below
        forever = json.dumps({"expression": "tr(X^99999999)", "wrt": ["X"], "order": 3}).encode()
        request = urllib.request.Request(f"{address}api/derive", forever, {"Content-Type": "application/json"})
        with ThreadPoolExecutor() as threads:
            asked = threads.submit(refused, request)
            time.sleep(0.5)
            began = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            assert asked.result() == 503
        out, err = process.communicate(timeout=20)
        assert time.monotonic() - began < at_pace(2)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    requests = [(line["path"], line["status"]) for line in lines if line["event"] == "request"]
    assert requests == [("/api/derive", 200), ("/", 200), ("/api/settings", 200), ("/api/derive", 503)]
    assert "secret" not in err
    until = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in below) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in below if os.path.exists(f"/proc/{pid}")]


def test_a_port_that_is_taken(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--no-open", "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert f"port {port}" in err
    assert "--port 0" in err


def test_without_fastapi(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert cli.main(["serve", "--no-open", "--port", "0"]) == 2
    assert "pip install 'eindiff[serve]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--port", "x"], ["--port", "99999"], ["--time-limit", "0"], ["--time-limit", "nan"], ["--workers", "0"]],
)
def test_bad_options(capsys, options):
    assert cli.main(["serve", *options]) == 2
    assert options[0] in capsys.readouterr().err


def test_help(capsys):
    assert cli.main(["serve", "--help"]) == 0
    assert "--time-limit" in capsys.readouterr().out
    assert cli.main(["--help"]) == 0
    assert "eindiff serve" in capsys.readouterr().out


def test_a_variable_named_serve(capsys):
    assert cli.main(["(serve)'*serve", "serve"]) == 0
    assert capsys.readouterr().out == "2*serve\n"
