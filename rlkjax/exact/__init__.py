"""Bits by definition: one mathematically defined result for every operation. `docs/exact.md`.

transform.py    exact(fn): the function transformation
certificate.py  certify(fn, *args): what a program's bits can depend on
reference.py    reference(fn): the same program in NumPy, one operation after the other
named.py        operations called by name: dot(..., grid=...)
interpret.py    walks a jaxpr with the rules; rules/ is the table
lower.py        the executor in JAX
known.py        what is computed while a program is traced; constants.py: as arrays of the program
rounding.py     correctly rounded functions; fixes.py, elementary.py, inverse.py, error_function.py,
                pairs.py hold their parts
grid.py         what numbers are rounded to before they are added
accumulate.py   order-free sums; contraction.py: dots; scatter.py
correct.py      what the reference uses; numpy_moves.py, numpy_gather.py, numpy_random.py
collective.py   what devices compute together; microbatches.py, passes.py: sums over microbatches
joins.py        which sums go on over devices; roots.py: the sums that a value is made of
settings.py     settings under which nothing is defined
compat.py       the only file that knows versions of JAX
"""
