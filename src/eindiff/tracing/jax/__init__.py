"""Functions of JAX as expressions."""
