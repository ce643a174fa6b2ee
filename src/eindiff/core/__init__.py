"""What expressions are made of: sizes, labels, nodes, and the constructors that keep them canonical."""
