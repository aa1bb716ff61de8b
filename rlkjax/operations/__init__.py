"""Down to the operation: two evaluations of a program, equation by equation. `docs/referee.md`.

blame.py      first_differing_operation(fn_a, fn_b, *args): for users
walk.py       two programs in step, into loops and branches, to the first result that differs
levels.py     a traced program as levels of equations: one for each body of a loop or branch
program.py    how the levels of a program are computed: one operation after the other, or compiled
lines.py      the line that the user wrote
values.py     values between host and device
mechanism.py  what the values of an operation show: order, contraction, precision, library
"""
