"""The one exception type of the package, what its codes mean, and how messages write shapes and numbers."""

from __future__ import annotations

# What an error of each code is about, and its cure. The page of errors has a section for each.
CODES = {
    "arrays": "What is given for a variable does not fit it: it is missing, has another shape or type, or lacks a "
    "declared property. Pass arrays of real numbers by the names of the variables, with the declared shapes.",
    "blocks": "Data that is read block by block does not fit together, or an output is no sum over blocks. All arrays "
    "need the same rows; write what relates rows of different blocks with smaller matrices, or compute it in memory.",
    "domain": "A function is asked for outside of its domain, or a number is infinite or not a number. Look at the "
    "values that are passed; `evaluate` says in which part of an expression it begins.",
    "indices": "An index does not exist, or is no whole number. Slices and lists of integers are written as in NumPy; "
    "index arrays are declared with `indices(name, ..., into=size)`.",
    "install": "A library that is an optional extra is not there. Install it with pip.",
    "large": "What is asked for is too large to be formed or drawn. Ask for products, diagonals or parts of it.",
    "names": "A variable is declared in a way that cannot be, or there is none of that name. Names have letters, "
    "digits and underscores; two variables of one name have one shape.",
    "options": "An argument has a value that it cannot have. The message lists the choices.",
    "page": "The page has limits for what it computes. Ask for less at once, or use the command line or Python.",
    "scalars": "Gradients and Hessians are those of a number, and this function gives an array. Sum it, or ask for "
    "its Jacobian.",
    "shapes": "Two shapes do not fit. Sizes of two names are different sizes: give axes of one size one name, or "
    "transpose or reshape.",
    "sizes": "A size is not known, or has two values. Give it with `sizes={...}`, or declare it as a number.",
    "stored": "What was stored in a file does not fit this version or this problem, or cannot be written. Store it "
    "again, or name another file.",
    "systems": "A matrix is singular, not definite, or so badly conditioned that no answer can be trusted. Add a "
    "multiple of the identity (`damped`, `damping=\"auto\"`) or a ridge term.",
    "text": "A text cannot be read, or means nothing. The caret shows the place; declare the names that it is about.",
    "tracing": "A function of NumPy, JAX or PyTorch does something that cannot be followed. The message has the line; "
    "rewrite that line as it says, or pass what it needs as an argument.",
}  # fmt: skip


class EindiffError(ValueError):
    """Something in the user's input cannot be done; the message says what, where, and with which shapes.

    `code` names the kind of error: `eindiff explain CODE` tells causes and cures, and so does the page of errors.

    >>> import eindiff as ed
    >>> try:
    ...     ed.matrix("A", "m", "n") @ ed.vector("x", "m")
    ... except ed.EindiffError as error:
    ...     print(error)
    ...     print(error.code)
    A @ x: the last axis of A (m×n) has size n, but the axis of x (m) it meets has size m
    shapes
    """

    __module__ = "eindiff"  # where people find it
    code = ""

    def __init__(self, message: str = "", code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code
        if self.code:
            self.add_note(f"[{self.code}] causes and cures: eindiff explain {self.code}")


def shape_text(shape: tuple) -> str:
    """A shape as people write it: `m×n`, `n`, or `scalar`.

    >>> shape_text(("m", 3))
    'm×3'
    """
    return "×".join(str(size) for size in shape) if shape else "scalar"


def shape_words(shape: tuple) -> str:
    """What an array of a shape is, in words.

    >>> shape_words(("m", 3)), shape_words(("n",)), shape_words(())
    ('m×3 matrix', 'vector of length n', 'scalar')
    """
    if len(shape) == 1:
        return f"vector of length {shape[0]}"
    return f"{shape_text(shape)} {'matrix' if len(shape) == 2 else 'tensor'}" if shape else "scalar"


def count_text(number: float) -> str:
    """A large number as people say it.

    >>> count_text(1_500_000)
    '1.5 M'
    """
    for unit, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{number:.0f}"


def bytes_text(number: float) -> str:
    """A number of bytes.

    >>> bytes_text(800), bytes_text(8e8)
    ('800 B', '800 MB')
    """
    return f"{count_text(number)}B" if number >= 1000 else f"{number:.0f} B"
