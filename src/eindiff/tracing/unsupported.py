"""What has no expression."""


class Unsupported(Exception):  # noqa: N818 (it is no error: the operation then becomes opaque)
    """A form of an operation that has no expression."""
