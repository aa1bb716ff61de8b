"""The table of rules, by family.

table.py        all families together
arithmetic.py   sums, products, quotients, comparisons, conversions
elementary.py   correctly rounded functions, and those composed from them
accumulate.py   sums along axes, dot, scatter-add
folds.py        running products, folds by the program's own function
windows.py      convolutions and windowed reductions, composed
scatters.py     scatters that keep the largest, multiply, or apply a function
indexing.py     values moved, none rounded
control.py      loops, branches, calls, custom derivatives
devices.py      shard_map, and what devices compute together
linear.py       cholesky, triangular solve, QR, LU, composed
"""
