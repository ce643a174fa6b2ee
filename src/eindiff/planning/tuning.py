"""Sizes at which one way to compute something becomes faster than another."""

GRAM = 40  # a symmetric product is faster than a general one from this size on
HALVED = 1024  # and of two blocks, in libraries without one, from this size on
MIRRORED = (2**20, 40)  # entries of a result, and terms in each, that are worth being computed once and mirrored
TRIANGLE = 64  # rows from which on a triangular system is solved as one
MANY = 512  # entries from which comparing is faster than heaviside, and NumPy's exp than SciPy's sigmoid
IN_PLACE = 2**14  # bytes of an array that is worth being changed in place
FORGET = 2**14  # bytes of an array that is worth being forgotten: memory that is used again need not be mapped again
