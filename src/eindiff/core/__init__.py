"""What expressions are made of.

`nodes` has the six kinds of node, `function` the row of a function that nodes apply. The constructors keep nodes
canonical (`construct` names all of them, and says what canonical is): `leaves`, `einsums`, `sums`, `applications`,
`powers`. They ask `rewrite` for rules before they make a node.

`labels` is algebra of labels alone; `networks` that of factors with labels: contractions opened, parts matched.
`rebuild` makes expressions anew with other nodes in the place of some, `nesting` decides which contractions are one
and which are nested. `derivation` says on a derivative whose it is. Below them are `sizes`, `coefficients`,
`intervals`, `index_relations` and `groups`, which know no expressions. `representation` is the plain text for errors
and logs.
"""
