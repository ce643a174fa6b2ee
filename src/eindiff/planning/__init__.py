"""In which form and in which order to compute.

`contraction_order` says which two operands of a contraction are multiplied first, `relation_order` when index maps are
used, `lower_bounds` what every order takes. Other forms: `factoring` of sums, `equal_parts` of contractions that are a
part with itself, `differences` of sums over pairs, `stacks` of sums over samples, `low_rank` of inverses, `deviations`
of sums that are 0 in total, which `degrees` tell apart from others; `alternatives` searches among them. `tuning` has
the sizes from which on they pay.
`simplify` makes expressions shorter, when asked to.
"""
