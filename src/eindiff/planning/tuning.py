"""Thresholds: where one way to compute something becomes faster than another.

Each says what it decides. They were measured on one core of a current server processor with OpenBLAS; programs depend
on them only weakly. `python -m benchmarks.crossings` times both ways around the thresholds of programs, and
`python -m benchmarks.compare` of two checkouts shows what another value does to the programs of the benchmarks.
Thresholds of programs are read when a program is made, so that tests may make small arrays count as large.
"""

from __future__ import annotations

# Programs

# Columns of X from which `X' diag(d) X` is `Z' Z` with `Z = sqrt(d) X`, which BLAS computes half of: below it the root,
# and the test whether d has a negative entry, take longer than the half that is saved.
GRAM = 64
# Terms of a sum from which `Σ x x'`, whose factors all occur twice, is a product with its own transpose.
SQUARE = 40
# The same in libraries whose product does not see that it is symmetric: there one block of four is mirrored, which
# saves a quarter, and is worth three products instead of one from this many columns on.
HALVED = 1024
# Entries of a result from which `Σ x x' ⊗ M` is planned as that of M, all terms of which are one array.
SAMPLED = 2**10
# Entries of a result, and terms in each, from which `Σ x x' ⊗ M` is computed for i ≤ m and mirrored (`mirrored`): it is
# a loop in Python over four rows at a time, and writes the result twice.
MIRRORED = (2**16, 30)
# Terms from which it is computed for k ≤ l only, too: what is saved is worth a copy to all places.
PACKED = 80
# Entries of M up to which it is not, if M is an outer product: BLAS takes as long for thin matrices as for these.
NARROW = 24
# Entries of A, terms of a sum, and columns of B up to which `A B` is computed as `(B' A')'`: up to twice as fast.
THIN_PRODUCT = (2**19, 256, 32)
THIN_TRANSPOSED = 2**17  # entries of A' from which `A' B` is, unless BLAS packs nothing
# Multiplications up to which BLAS has kernels for small matrices, which pack nothing: they take less time where these
# have few columns, and more where the second one is transposed.
UNPACKED = 10**6
# Rows of A, and multiplications, from which such a product `A B'` is computed with a copy of B'.
COPIED = (40, 10**5)
# Rows of A that such a product has at least, for which one core computes larger ones so, some rows at a time: where
# BLAS has no such kernels for a processor, fewer rows at a time take up to 1.17 times as long as all.
BLOCK_ROWS = 64
# Entries of a row of `x y'` up to which BLAS, which packs nothing, takes half the time of NumPy's product.
SHORT_ROWS = 2**11
# Rows from which products with triangular and tridiagonal matrices are treated as such, and the root of the entries to
# the right of a triangle: below it NumPy's own product is as good. Systems of equations are from two rows on.
TRIANGLE = 64
PARTS_READ = 256  # rows from which a product of a triangle, or of a tridiagonal matrix, and a vector reads these only
# Rows from which a single inverse is made of factors, and rows of one are solved for.
FACTORED = 24
# How often as many rows as those that are read of an inverse it has, for which these are solved for.
FEW = 4
# Entries of right sides, and how often as many columns as rows they have, from which a system is solved by the inverse
# of its matrix, since BLAS solves for a column in several times the time of a product; and how often if the matrix is
# symmetric, below which Cholesky's factors are as good.
RIGHT_SIDES = (2**11, 2, 6)
# Entries from which `x > 0` is faster than np.heaviside, and 1 / (1 + np.exp(-x)), which is vectorized, than SciPy's
# expit: two calls more, against some nanoseconds an entry.
MANY_ENTRIES = 256
# Entries of a sum of outer products from which on putting vectors into two matrices pays.
OUTER_PRODUCTS = 2500
# Bytes of an array that is worth being changed in place: new memory of that size is not in the cache yet.
IN_PLACE_BYTES = 2**14
# Calls on small arrays that take as long as putting such side by side, and as reading one of them there.
JOINED, PICKED = 8, 0.3
# Bytes of an array that is worth a `del`: memory that is used again need not be mapped again.
FORGET_BYTES = 2**13

# Bytes of an array whose memory is worth being used again for another one: more than that the system maps anew.
REUSED_BYTES = 2**16

# Bytes of an array from which operations on it run over some rows at a time, and those that a tile has in use at most.
TILED_BYTES = 2**21
TILE_BYTES = 2**21
# How many times as many rows a tile has in threads: Python runs in one of them at a time, and who waits for it waits
# longer than a short call takes.
THREADED_TILES = 2
# Bytes of smaller arrays from which they do so in threads, without tiles, and the threads that it has to be worth.
THREADED_BYTES, LEAST_THREADS = 2**18, 4
# Rows of a tile from which, and columns of a product in it up to which, that has no more rows than are not packed.
TILED_PRODUCT = (24, 32)
TILED_SEEDS = 6  # arrays around which such operations are looked for
# Predicted seconds of such operations for which a thread is worth it: it takes 0.05 ms, and gets in the way of others
# while Python runs.
THREAD = 3e-4
# Predicted seconds of factorizations from which LAPACK has several threads, and up to which these save less than they
# get in the way of others.
FEW_THREADS = (1.5e-5, 1e-3)
# Seconds that a thread of BLAS keeps its core busy after a product, waiting for another one.
SPINNING = 2.5e-2
# Predicted seconds of products up to which one thread computes them beside factorizations by several: those of another
# library come to a core that is kept busy only when the system takes it away.
SWITCHED = 8e-3
# Entries of a last axis that is short: NumPy's loops along it take longer than what they compute.
SHORT = 16
# Bytes of an array from which it is made with its short axes first.
SPREAD_BYTES = 2**12

# The model of time (`program.costs`), in seconds

CALL = 1e-6  # one call from Python
VIEW = 2e-7  # one view
SHORT_RUN = 1e-8  # one run of entries that lie beside each other, of an array that is part of another one
EACH = 5e-7  # each matrix product in a stack
OPERATION = {"blas": 2e-11, "lapack": 6e-11, "arithmetic": 2.5e-10, "function": 5e-9}  # one operation on a number
CACHE_BYTES = 2**20  # bytes that stay in the cache
BYTE = {True: 3e-11, False: 6e-11}  # to move one, in the cache and out of it
ALONG_ROWS = 2**14  # numbers of a product from which on JAX multiplies along rows, and takes longer to compile that
# Bytes of an array from which on the system gives its memory anew in each call, and what one of them then takes JAX
FRESH_BYTES, FRESH = 2**23, 8e-10
THIN = 24  # rows or columns: products of thinner matrices take as long as of matrices that have that many

# The order of multiplication (`planning.contraction_order`), in operations

WRITE = 4.0  # that take as long as writing an entry
STACKED = 2.2  # for a pair of entries in a stack of matrix products, which are slower than a single one

READ = 12.0  # for an entry that is read at a place that a table says
SCATTER = 20.0  # for one that is added at such a place

# How far is searched, which bounds the time of planning itself

BEST_LIMIT = 9  # operands of a contraction of which all sets are looked at
NEAR = 4  # operands that share a label: they are near each other
SUBSETS_LIMIT = 1500  # sets of operands that are looked at
LATE_LIMIT = 7  # operands and relations between which these are looked at
RELATED_ENTRIES = 2000  # of all labels of a contraction together, from which it matters when relations are used
WORTHWHILE = 1e-4  # seconds of work in a program, without its calls, from which other forms of it are tried
WORTHWHILE_BRIEF = 2e-6  # the same in programs of up to `BRIEF` nodes, where that takes a millisecond
BRIEF = 40
ALTERNATIVES = 60  # of these
REPAID = 1000  # calls that pay for the time that is spent on them
REPAID_COMPILED = 125  # the same for libraries with a compiler, which finds some of them, and takes its own time first
REPAID_FEW = 10  # the same for any other form of `VAST` programs
REPAID_TWICE = 2  # the same for those that are tried one by one for a compiler: the best ones are among the first
VARIED = 150  # nodes up to which the first few forms are tried whatever they save
VARIED_COMPILED = 40  # the same for libraries with a compiler, in which operations that are saved take no calls
REPAID_LARGE = 100  # calls that pay for the time that is spent on other forms of more nodes: people wait for the first
VAST = 500  # nodes from which on the other forms together take longer than people wait for the first call
PLANNED = 1e-3  # seconds that it takes to plan a node in another form
PLANNED_BRIEF = 2.5e-4  # the same in programs of up to `BRIEF` nodes, with one of these in another form
TRIED_NODES = 1000  # nodes of all other forms together
# How often as many nodes as before products with sums may have, multiplied out, that are worth a try: those of models,
# and of their layers, that took less time had up to 1.15 times as many, and all others with more took longer.
GROWN = 1.2
SPLIT_LIMIT = 32  # ways to see a contraction as that of two equal parts
CLEARLY = 0.99  # of the predicted time: what another form may take at most
NEARLY = 1.02  # of the predicted time: what a form may take of which others are made
HOPELESS = 1.2  # of the predicted time: what another form may take before common parts are shared
FACTORINGS = 4  # times that sums are gone through: each time two terms of each become one; large expressions once
TERMS_LIMIT = 20  # products in a sum that are compared with each other

# Structured derivatives (`structure`)

STRUCTURE_BONUS = 4  # a structure is used rather than the matrix, unless it takes this many times as long
FORMED_ENTRIES = 2**20  # entries of a matrix that may be formed for a more accurate result
VARIABLES_LIMIT = 6  # variables of a Schur complement; of more, only one is eliminated at a time
EXACT_LIMIT = 6  # factors of a pattern that are multiplied in the best order; more are in a good one
USES = 10  # products with a derivative, against which the time is held that it takes to make it
JOINED_LIMIT = 6  # patterns of a derivative of which two may become one whose factors are products
PATTERNS_LIMIT = 30  # patterns of a derivative that are compared with each other
# Rows up to which a single matrix is treated like a stack: by products, and with the threads of one library only.
SMALL_MATRIX = 64
MANY_MATRICES = 50  # matrices of a stack for which a loop in Python over their rows pays
FEWER = 2  # times as many entries has what is not made as a whole
