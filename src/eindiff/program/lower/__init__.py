"""From expressions to operations."""
