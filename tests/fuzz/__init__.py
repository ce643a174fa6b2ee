"""Random programs, checked against Taylor arithmetic: `python -m fuzz --seconds 60 --seed 7` in this folder's parent.

A program is a few lines of Python over a library `ed` (`programs.py`). Read with eindiff it is an expression; read with
`oracle.py` it is computed in jets (`jets.py`), which know nothing of eindiff and give the value and the derivatives up
to order 3 along random directions. `checks.py` compares the two, and everything else that eindiff can do with the
expression: modes, compiled programs in each library, sources, products with directions, structured results.
A kind of program is one file that generates it, listed in `kinds.py`.
"""
