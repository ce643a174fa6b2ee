"""What follows from an expression at every point: bounds, symmetry, definiteness."""
