"""Functions written for other libraries as expressions: their programs are read, one constructor an operation."""
