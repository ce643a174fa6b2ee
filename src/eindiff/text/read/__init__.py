"""From text to expressions: source, syntax, kinds and sizes, expression."""
