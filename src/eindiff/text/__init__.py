"""The text language: text to expressions, and expressions to text."""
