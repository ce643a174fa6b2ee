"""The values of derivatives in the structure that their labels have, and how to solve with them."""

from eindiff.operators.derivative import Derivative
from eindiff.operators.solver import SingularError
from eindiff.operators.terms import Term

__all__ = ["Derivative", "SingularError", "Term"]
