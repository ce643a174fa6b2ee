"""From operations to source."""
