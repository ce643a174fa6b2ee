"""Imported once by the process that workers are forked from: what they need is then in memory and has run once."""

from __future__ import annotations

from eindiff.apps.page.workers import respond

_BEGUN = {"expression": "sum(log(exp(-y.*(X*w)) + vector(1))) + norm2(w)^2", "wrt": ["w"], "order": 2}

for _kind in ("parse", "derive", "check", "steps", "graph", "structure", "cost", "code"):
    respond(_kind, _BEGUN)
for _notation in ("index", "einsum"):
    respond("derive", {**_BEGUN, "notation": _notation})
