"""Plain NumPy functions as expressions, and their derivatives as functions of arrays.

A function is *traced*: called once with symbolic arrays in place of its arguments, which gives an expression. The
derivative of that is compiled, and kept for arguments of the same shapes and types.

>>> import numpy as np
>>> import eindiff as ed
>>> def loss(w, X, y):
...     return np.sum(np.logaddexp(0, -y * (X @ w)))
>>> hessian = ed.hessian(loss)
>>> hessian(np.zeros(2), np.eye(2), np.ones(2))
array([[0.25, 0.  ],
       [0.  , 0.25]])
>>> print(hessian.lower(np.zeros(2), np.eye(2), np.ones(2)).formula)
X'*diag(y.^2 .* sigmoid(-y .* (X*w)) .* sigmoid(y .* (X*w)))*X
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.derivatives import HESSIAN, Kind, gradient, jacobian
from eindiff.tracing.names import function_name, parameters
from eindiff.tracing.numpy.library import NUMPY
from eindiff.tracing.numpy.nested import nested_call
from eindiff.tracing.questions import current
from eindiff.tracing.traced_function import TracedFunction

_KINDS = {"gradient": Kind("gradient", (gradient,)), "jacobian": Kind("jacobian", (jacobian,)), "hessian": HESSIAN}


class DerivativeOfFunction(TracedFunction):
    """A derivative of a NumPy function, by some of its arguments: a function of the same arguments.

    It is traced again for arguments of other shapes or types, or with other values of what is no array; `traces` counts
    how often that was. Arrays and floats are variables. Branches, masks and the order of entries are those of the
    values; there is a trace for each outcome. If the function needs the numbers of an argument that it is not
    differentiated by, that one is fixed, and other values are traced anew. With `verify` each trace is compared with a
    plain call of the function. What the function sees around it (globals, closures, defaults, attributes, arrays) is
    constant; if any of that has changed, it is traced again.
    """

    def __init__(
        self, kind: str, f: Callable, argnums: Any = 0, mode: str = "auto", structured: bool = False,
        has_aux: bool = False, verify: bool = True,
    ) -> None:  # fmt: skip
        if structured and (has_aux or kind == "gradient"):
            raise EindiffError("structured=True is for Jacobians and Hessians, without has_aux=True", "options")
        options: dict[str, Any] = {"mode": mode, "structured": structured, "together": structured}
        super().__init__(NUMPY, _KINDS[kind], f, argnums, has_aux, verify=verify, **options)
        self.__name__ = f"{kind} of {function_name(f)}"
        self.__doc__ = f"The {kind} of {function_name(f)}.\n\n{getattr(f, '__doc__', None) or ''}"
        self.several = isinstance(argnums, list | tuple)
        self.by = [self._argument(x) for x in (argnums if self.several else [argnums])]
        self.positions = {position for position, _ in self.by}
        self.keywords = {name for _, name in self.by}
        if not self.by or len(set(self.by)) < len(self.by):
            raise EindiffError(f"argnums={argnums!r}: name each argument to differentiate by once", "options")

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The derivatives at some arguments; symbolic ones inside of a function that is traced."""
        if current() is not None:
            return nested_call(self, args, keywords)
        return self._computed(args, keywords)

    def _argument(self, x: Any) -> tuple[int, str]:
        """The position and the name of a parameter that is given by either."""
        known = [p.name for p in parameters(self.function) if p.kind != Parameter.VAR_POSITIONAL]
        if isinstance(x, str) and x in known:
            return (known.index(x), x)
        if isinstance(x, int | np.integer) and not isinstance(x, bool):
            position = int(x) + (len(known) if x < 0 else 0)
            return (position, known[position] if 0 <= position < len(known) else "")
        listing = ", ".join(known)
        raise EindiffError(
            f"argnums={x!r}: {function_name(self.function)} has the parameters {listing}; give places or names",
            "options",
        )

    def given(self, args: Sequence[Any], keywords: Mapping[str, Any], place: int, name: str) -> Any:
        """An argument that derivatives are by, from all of a call."""
        if place < len(args):
            return args[place]
        if name in keywords:
            return keywords[name]
        raise EindiffError(f"{self.__name__}: the argument {name or place} to differentiate by is not given", "tracing")
