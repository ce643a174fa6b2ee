"""The smart constructors: they keep the canonical form, so that equal expressions are the same object.

Facts about every node ever made (Lemmas 1 to 3 of the paper made structural):

1. Labels, operands and terms are in a canonical order and coefficients are folded.
2. Deltas and ones are absorbed at once: no operand of an Einsum has a repeated or unbound output label.
3. Products, which sum over nothing, are inlined wherever they are used.
4. Sums are pushed inward: a contraction holds just the operands that hang together through contracted labels;
   whatever the contraction does not touch stays outside, in the surrounding product. A contraction of contractions
   is one contraction (Lemma 1), up to `FLAT_LIMIT` operands and where `inline` allows it.
5. Adds are flat, like terms are merged, terms of one delta pattern are grouped under it, and what is common to all
   terms stands in front (Lemma 3). Long sums deep down, such as those of the steps of a loop, are terms of others as
   they are (`sealed`): else each step would have the terms of all before.
6. An Einsum over an Add with delta terms distributes over those terms, but where it is a diagonal and a full matrix
   that is multiplied with matrices: that is kept as an operand (`kept_sums`), which has all digits of a difference.
   An index map over an Add does not: the Add is shared. Terms that simple index maps read alike are added up first
   (`x[1:] + y[1:]` is `(x + y)[1:]`).
"""

from eindiff.core.applications import apply, map_
from eindiff.core.einsums import (  # fmt: skip
    FLAT_LIMIT,
    PRODUCT_LIMIT,
    Factor,
    Inline,
    Network,
    einsum,
    filled,
    is_number,
    is_zero,
    parts,
    scale,
    size_number,
    transpose,
    transpose_core,
    with_coefficient,
)
from eindiff.core.leaves import PROPERTIES, constant, placeholder, properties_of, variable
from eindiff.core.powers import known_power, power_parts
from eindiff.core.sums import add, factored, in_front, sealed, symmetric_part

__all__ = [
    "FLAT_LIMIT", "PRODUCT_LIMIT", "PROPERTIES", "Factor", "Inline", "Network", "add", "apply", "constant",
    "einsum", "factored", "filled", "in_front", "is_number", "is_zero", "known_power", "map_",
    "parts", "placeholder", "power_parts", "properties_of", "scale", "sealed", "size_number", "symmetric_part",
    "transpose", "transpose_core", "variable", "with_coefficient",
]  # fmt: skip
