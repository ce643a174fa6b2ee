"""Running times of eindiff next to frameworks for automatic differentiation and to derivatives written by hand."""
