"""What has no expression."""

RANDOM = "is random: draw the numbers outside of the function and pass them to it"
OUTSIDE = (
    "changes a tensor from outside of the function: change a clone() of it, or use eval() where it is what a module "
    "counts in train mode, as batch normalization does"
)


class Unsupported(Exception):  # noqa: N818 (it is no error: the operation then becomes opaque)
    """A form of an operation that has no expression."""
