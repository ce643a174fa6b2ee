"""What people apply to expressions.

A function is a row of `table`: those of numbers are in `elementwise`, `powers` and `special_functions`, those of whole
tensors in `reductions`, `matrices`, `frechet` and `opaque` (functions that another library computes). What needs no row
is a contraction: `multilinear` (products, sums, axes) and `indexing` (slices, reshaping, gathering). `operators`
installs Python's operators on expressions. `rules/` holds what is known of functions beyond the canonical form.
"""
