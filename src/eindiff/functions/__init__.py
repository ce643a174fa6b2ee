"""The tables of functions, the operators of expressions, and the rules that rewrite them."""
