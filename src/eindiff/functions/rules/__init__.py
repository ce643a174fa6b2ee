"""Rewrite rules: what holds beyond the canonical form of sums and products.

A rule is a plain function that gets what a node is about to be made of, and returns something better or None. Its
docstring states the identity and why applying it ends. The engine is in `core/rewrite.py`; constructors run it, so an
expression that exists is simplified. Rules that are not always wanted are in `planning/simplify.py`, those that need
facts in `facts/rules.py`.
"""

from eindiff.functions.rules import elementwise, exponentials, kronecker, matrices, networks, relations, spectra

__all__ = ["elementwise", "exponentials", "kronecker", "matrices", "networks", "relations", "spectra"]
