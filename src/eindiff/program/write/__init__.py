"""From operations to source.

`choice` takes the form of the outputs whose operations take the least time, `module` makes a module of it. In between
are passes for NumPy: `flat_grids`, `tiles` (with `rows`), `blas_forms`, `side_by_side` and `numbers`. `statements`
writes lines, in the `grammar` of Python and with the `memory` that is free. `source`, `script` and `library_script`
are what people export.
"""
