"""The text language: text to expressions, and expressions to text."""

from eindiff.language.declarations import parse_declarations
from eindiff.language.parse import parse
from eindiff.language.source import ParseError

__all__ = ["ParseError", "parse", "parse_declarations"]
