"""From text to expressions, in five passes over one tree of syntax.

`source` (the text, its places, and errors that point at one), `notation` and `latex` (what people write, in the words
of the grammar; `latex_tokens` tells formulas, where letters stand side by side, `latex_scripts` reads indices and
exponents), `syntax` (the tree, with lark), `kinds` (which names are scalars, vectors or matrices, by their use and then
by `offsets` and `conventions`), `infer` (the shape of each node by unification: `shapes`, `unify`), `counts` (names
that are sizes), `build` (the expression; `over` for sums over an index). `declarations` says what variables are;
`table` has the functions, a row each (`function_rows`, `table_functions`, `table_shapes`), `literals` what is a size or
an axis. `parse` is the whole, a `reading` what it found.
"""
