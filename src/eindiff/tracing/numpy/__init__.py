"""Functions of NumPy as expressions."""
