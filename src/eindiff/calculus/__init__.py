"""Derivatives of expressions, as expressions.

`chain_rule` has the pushforward and the pullback of each kind of node, one function a theorem of the paper, and the two
sweeps over an expression. `derive` makes derivatives of any order of them, in each mode: derivative, gradient, Jacobian
and Hessian. `contracted` has what is made of derivatives without forming them: products with directions, diagonals,
traces, cuts; `curvatures` Hessians as sums over nodes. `kinks` and `spectra/` know where the plain chain rule says too
little: at kinks of absolute values, and where eigenvalues are equal; `divided` has the divided differences that the
latter needs.
"""
