"""Kernels in C++ for what XLA does slowly on CPUs; each computes a definition, to the bit.

vectors.h      vectors of numbers
folds.h        one number from all those of a vector
grid.h         from float32 to whole numbers of a unit, and back with one rounding
pack.h         a block of an operand on its grid, in the order of the tiles
tile.h         the innermost loops, and sums that go on over blocks
slab.h         so many rows and columns of a product that they fit the cache
parts.h        a product whose terms are cut between threads
plan.h         how a product is shared out
shared_work.h  pieces of work for the threads of a pool
dots.h         one row times columns as they lie
sums.h         sums of rows
halves.h       whole numbers as 16-bit halves, which some processors multiply faster
half_tile.h    the innermost loops for halves
half_slab.h    a slab by halves
short_dots.h   one row times columns of few terms, eight at a time
lanes.h        which lanes of a vector are meant
processor.h    which instructions there are
product.cc     the product of matrices, as XLA calls it
on_grid.cc     columns on their grids before a loop, as XLA calls it
sum.cc         the sum along axes, as XLA calls it
primitive.py   a kernel on CPUs, operations of XLA elsewhere
library.py     built by `python -m rlkjax.kernels`; without it XLA does the work
"""
