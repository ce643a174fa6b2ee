"""What a JAX function sees around it."""

from __future__ import annotations

from typing import Any

import jax

from eindiff.core.recent import Same, Seen
from eindiff.tracing.closures import Surroundings


class JaxSurroundings(Surroundings):
    """The key of a JAX function. JAX's arrays never change, so they are known by identity."""

    def array_key(self, value: Any) -> Any:
        return Same(value) if isinstance(value, jax.Array) else super().array_key(value)

    def visible(self) -> dict[str, Seen]:
        """The arrays of real numbers that the function sees, by the names that it has for them."""
        found: dict[str, Seen] = {}
        for name, value in self.arrays.values():
            is_known = not isinstance(value, jax.core.Tracer)
            if is_known and jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
                found.setdefault(name, Seen(value))
        return found
