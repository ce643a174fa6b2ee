"""What has no expression."""

RANDOM = "is random: draw the numbers outside of the function and pass them to it"


class Unsupported(Exception):  # noqa: N818 (it is no error: the operation then becomes opaque)
    """A form of an operation that has no expression."""
