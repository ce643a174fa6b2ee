"""What follows from an expression at every point.

`bounds` infers bounds of entries, symmetry and definiteness from the leaves up; `definiteness` finds the mirror images
in a contraction that show that it is semidefinite. `rules` are the rewrite rules that need to know such facts.
"""
