"""All problems, by name: those of the paper first."""

from __future__ import annotations

from benchmarks.problems import (
    attention,
    factorization,
    gaussian_process,
    least_squares,
    logistic,
    mixture,
    multinomial,
    net,
    pairwise,
    poisson,
)

_MODULES = [
    logistic, factorization, net, multinomial, poisson, gaussian_process, pairwise, least_squares, mixture, attention,
]  # fmt: skip
PROBLEMS = {
    problem.name: problem
    for problem in sorted([p for module in _MODULES for p in module.PROBLEMS], key=lambda problem: not problem.paper)
}
