"""The version of the package, which everything may name."""

__version__ = "0.1.0"
