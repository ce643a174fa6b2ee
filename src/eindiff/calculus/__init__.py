"""Derivatives: pushforward and pullback, one function a theorem, and what is made of them."""
