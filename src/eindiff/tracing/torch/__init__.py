"""Functions of PyTorch as expressions."""
