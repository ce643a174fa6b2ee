"""Optimization: Newton's method."""
