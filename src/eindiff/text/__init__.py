"""The text language. `read` makes an expression of text, `write` makes text of an expression.

The language is that of matrixcalculus.org with more functions, tensors and einsum; what is written in it can be read
again. `question` has what is asked about an expression and what is found, its derivatives; `layouts` the orders of
their axes, `steps` how a derivative comes about, `graph` the expression DAG as a picture.
"""
