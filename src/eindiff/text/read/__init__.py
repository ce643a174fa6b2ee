"""From text to expressions, in four passes over one tree of syntax.

`source` (the text, its places, and errors that point at one), `syntax` (the tree, with lark), `infer` (the shape of
each node by unification: `shapes`, `unify`), `build` (the expression). `declarations` says what variables are; `table`
has the functions, a row each (`function_rows`, `table_functions`, `table_shapes`), `literals` what is a size or an
axis. `parse` is the whole; `index_notation` reads the other notation, `[i] sum[j] A[i,j]*x[j]`.
"""
