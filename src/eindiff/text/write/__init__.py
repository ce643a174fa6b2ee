"""From expressions to text: trees in matrix, index and einsum notation; plain, Unicode, LaTeX, MathML."""
