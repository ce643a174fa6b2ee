"""In which form and in which order to compute.

`contraction_order` says which two operands of a contraction are multiplied first. `factoring` has other forms of sums
that may cost less: common factors in front, or multiplied out; `halves` contractions as products of two equal
parts. `simplify` makes expressions shorter, when asked to.
"""
