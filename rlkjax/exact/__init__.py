"""Bits by definition: one mathematically defined result for every operation. `docs/exact.md`.

transform.py    exact(fn): the function transformation
certificate.py  certify(fn, *args): what a program's bits can depend on
reference.py    reference(fn): the same program in NumPy, one operation after the other
named.py        operations called by name: dot(..., grid=...)
interpret.py    walks a jaxpr with the rules; rules/ is the table
lower.py        the executor in JAX
rounding.py, elementary.py, inverse.py, pairs.py   correctly rounded functions
accumulate.py, scatter.py                          order-free accumulation
correct.py, numpy_moves.py                         what the reference uses
compat.py       the only file that knows versions of JAX
"""
