"""Whatever is asked of the server, it answers, or says in a 4xx error what is wrong.

`python tests/apps/test_serve_fuzz.py 10000` asks ten thousand questions and prints what came of them.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from typing import Any

import httpx

from eindiff.apps.page.app import make_app
from eindiff.apps.page.examples import GROUPS
from eindiff.apps.page.workers import Workers, cores
from eindiff.text.read.table import TABLE
from make_cookbook_page import read_sections

COUNT = 400  # questions of the test
SECONDS = 2.0  # for one of them
KINDS = ("derive", "derive", "derive", "parse", "check", "steps", "graph", "structure", "cost", "code")
PIECES = [
    *"+-*/^'()[],;:=.<>\"#{}_ \n\t⊙⊘⊗ᵀ−·0123456789abcxyzABCXYZ", ".*", "./", ".^", "...", "**", "@", "1e", "²", "𝑥",
    "\0", "\ud800", "\u202e", "ß", "<script>", "</script>", "<img src=x onerror=alert(1)>", "&lt;", "1e308", "9^9^9^9",
    "eye", "eye(n)", "ones(3,3)", "[[1,2],[3,4]]", "x[0:2]", "pi", "vector(1)", "inv(X)", "__import__", "None", "nan",
    *(f"{name}(" for name in TABLE),
]  # fmt: skip
WORDS = [
    "symmetric",
    "psd",
    "orthogonal",
    "diagonal",
    "positive",
    "vector",
    "matrix",
    "scalar",
    "(n,n)",
    "(1,2,3)",
    "(0)",
]


def texts() -> list[tuple[str, str, str]]:
    """Expressions, declarations and variables that mean something."""
    found = [(text, declarations, wrt) for section in read_sections() for text, declarations, wrt, _ in section.rows]
    found += [(x.expression, x.declarations, ",".join(x.wrt)) for group in GROUPS for x in group.examples]
    return found


def changed(text: str, rng: random.Random, pieces: list[str], times: int) -> str:
    """A text with some places of it changed."""
    for _ in range(times):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((0, 0, 1, 1, 2, 5)))
        piece = rng.choice((rng.choice(pieces), "", text[rng.randrange(len(text) + 1) :][:8]))
        text = text[:at] + piece + text[end:]
    return text


def question(rng: random.Random, known: list[tuple[str, str, str]]) -> tuple[str, dict[str, Any]]:
    """Something to ask: mostly something that means something, with errors in it."""
    kind = rng.choice(KINDS)
    text, declarations, wrt = rng.choice(known)
    if rng.random() < 0.1:
        text = f"{text}{rng.choice(['+', '*', '.*', '/'])}{rng.choice(known)[0]}"
    ask: dict[str, Any] = {
        "expression": changed(text, rng, PIECES, rng.choice((0, 0, 0, 0, 1, 2, 6))),
        "declarations": changed(declarations, rng, PIECES + WORDS * 4, rng.choice((0, 0, 0, 0, 0, 0, 1, 3))),
    }
    if kind == "parse":
        return kind, ask
    ask["wrt"] = [word for word in rng.choice((*[wrt.split(",")] * 5, [], ["x"], ["X", "zz"], [wrt])) if word][:8]
    ask["order"] = rng.choice((0, 1, 1, 1, 2, 2, 3))
    ask["notation"] = rng.choice(("matrix", "index", "einsum"))
    ask["layout"] = rng.choice(("mixed", "numerator", "denominator"))
    ask["mode"] = rng.choice(("auto", "reverse", "forward", "cross_country"))
    ask["symmetric"] = rng.choice(("projected", "free"))
    if kind == "code":
        ask["library"] = rng.choice(("numpy", "torch", "jax", "tensorflow", "cupy", "latex"))
    if kind in ("structure", "cost"):
        ask["sizes"] = {name: rng.choice((1, 2, 7, 1000, 10**6)) for name in rng.sample("mnkp", 2)}
    return kind, ask


async def asked(count: int, seed: int = 0) -> tuple[Counter[tuple[str, int]], list[tuple[str, dict, int, str]]]:
    """How often each kind of question got each status, and the questions whose status is not a good one."""
    rng, known = random.Random(seed), texts()
    events: list[tuple[str, dict]] = []
    workers = Workers(cores(), SECONDS, log=lambda event, **fields: events.append((event, fields)))
    app = make_app(workers, lambda event, **fields: None)
    statuses: Counter[tuple[str, int]] = Counter()
    bad: list[tuple[str, dict, int, str]] = []
    workers.start()
    try:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", timeout=60)
        todo = iter([question(rng, known) for _ in range(count)])

        async def user() -> None:
            for kind, ask in todo:
                body = json.dumps(ask).encode()
                headers = {"content-type": "application/json"}
                answer = await client.post(f"/api/{kind}", content=body, headers=headers)
                statuses[kind, answer.status_code] += 1
                if answer.status_code not in (200, 422) or (answer.status_code == 422 and not answer.json()["message"]):
                    bad.append((kind, ask, answer.status_code, f"{answer.text[:200]} {events[-2:]}"))

        await asyncio.gather(*(user() for _ in range(2 * workers.count)))
        await client.aclose()
    finally:
        workers.stop()
    return statuses, bad


def test_answers():
    statuses, bad = asyncio.run(asked(COUNT))
    assert sum(statuses.values()) == COUNT
    assert all(status == 504 for _, _, status, _ in bad), bad
    assert len(bad) <= COUNT // 50, bad
    assert sum(count for (_, status), count in statuses.items() if status == 200) > COUNT // 4


if __name__ == "__main__":
    began = time.monotonic()
    wanted, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    statuses, bad = asyncio.run(asked(wanted, seed))
    print(f"{sum(statuses.values())} questions in {time.monotonic() - began:.0f} s")
    for (kind, status), count in sorted(statuses.items()):
        print(f"{kind:10} {status} {count}")
    for kind, ask, status, text in bad:
        print(status, kind, ask, text)
