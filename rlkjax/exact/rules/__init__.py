"""The table of rules, by family.

table.py        all families together
arithmetic.py   sums, products, quotients, comparisons, conversions
elementary.py   correctly rounded functions, and those composed from them
accumulate.py   sums along axes, dot, scatter-add
indexing.py     values moved, none rounded
control.py      loops, branches, calls, custom derivatives
linear.py       cholesky, triangular solve, QR, LU, composed
"""
