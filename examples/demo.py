"""A demonstration: derive a Hessian, read it, take the code, run it and check it."""

from __future__ import annotations

import time

import numpy as np

import eindiff as ed
from eindiff.program.write.source import to_source
from eindiff.text.write.to_text import to_text


def main() -> None:
    """Logistic regression and matrix factorization, from the expression to checked numbers."""
    _title("Logistic regression: the Hessian of  sum(log(exp(-y*(X@w)) + 1))  by w")
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    loss = ed.sum(ed.log(ed.exp(-y * (X @ w)) + 1))
    outputs = {"value": loss, "gradient": ed.gradient(loss, w), "hessian": ed.hessian(loss, w)}
    _show("formula", to_text(outputs["hessian"], style="unicode"))
    source = to_source(outputs, name="logistic")
    _show("code", source)
    _run(source)
    _show("check", str(ed.check(loss, w)))

    _title("Matrix factorization: the Hessian of  norm2(T - U@V.T)**2  by U, a tensor of order 4")
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    loss = ed.norm2(T - U @ V.T) ** 2
    hessian = ed.hessian(loss, U)
    _show("formula", to_text(hessian, notation="index", style="unicode"))
    _show("plan", f"{ed.plan(hessian, {'m': 1000, 'n': 1000, 'k': 10})}\n(m = n = 1000, k = 10)")
    _show("check", str(ed.check(loss, U)))


def _title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}")


def _show(name: str, text: str) -> None:
    print(f"\n{name}:")
    print("\n".join(f"    {line}" for line in text.strip().splitlines()))


def _run(source: str) -> None:
    """Run the code of the logistic regression on random data."""
    namespace: dict = {}
    exec(compile(source, "logistic.py", "exec"), namespace)
    generator = np.random.default_rng(0)
    m, n = 2000, 500
    X, w, y = generator.normal(size=(m, n)), generator.normal(size=n) / 20, np.sign(generator.normal(size=m))
    namespace["logistic"](X, w, y)
    start = time.perf_counter()
    value, _, hessian = namespace["logistic"](X, w, y)
    took = time.perf_counter() - start
    least = np.linalg.eigvalsh(hessian)[0]
    _show(
        "run",
        f"X is {m}×{n}: loss {value:.1f}, Hessian {n}×{n} in {1000 * took:.0f} ms, smallest eigenvalue {least:.1f}",
    )


if __name__ == "__main__":
    main()
