"""Ways to solve with a structured derivative, one a file."""
