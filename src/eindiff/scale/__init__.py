"""Data that does not fit: outputs that are sums over an index are computed block by block, and added.

`passes` finds what has to be added up, in how many passes over the data; `blocks` reads data; an engine (`streams`,
`dask_tasks`, `jax_mesh`) runs a pass; `sharded` puts this together as a function of arrays by name.
"""
