"""From expressions to operations.

`lowering` goes over the nodes. What a node becomes is a value (`values`): a sum of `tensors`, with the `places` where
their entries go. `products` multiplies tensors, pair by pair by `contractions`, and `networks` those with index maps
between them (`indexing`, `meetings`). `functions` has the functions of the table, `halves` matrices with few entries.

The others are passes over operations that are there: `tidying`, `cuts`, `sums_of_exponentials`, `common_products`,
`softmaxes`, `logistic_densities`, `factorizations`, and `for_compilers` in the place of most of these for JAX.
"""
