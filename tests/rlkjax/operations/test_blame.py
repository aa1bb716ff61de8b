"""The first differing operation: which one, in which pass of a loop, on which line, and why."""

import functools
import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax.errors import InputError
from rlkjax.operations.blame import describe, first_differing_operation, walk
from rlkjax.operations.levels import BODIES
from rlkjax.operations.program import Program
from rlkjax.operations.walk import Walk

F32 = np.float32
X = np.linspace(-2.0, 2.0, 12, dtype=F32).reshape(4, 3)
W = np.linspace(0.5, 1.5, 6, dtype=F32).reshape(3, 2)


class Altered(Program):
    """A program one of whose results is another number, at one visit of one equation."""

    def __init__(self, fn, args, primitive, value, *, index=(), visit=0):
        super().__init__(fn, args, lambda each: each)
        self._target = primitive, value, index
        self._left = visit

    def evaluate(self, path, inputs):
        results = super().evaluate(path, inputs)
        primitive, value, index = self._target
        for equation, values in zip(self.outline(path)[0], results, strict=True):
            if equation.primitive == primitive:
                self._left -= 1
                if self._left == -1:
                    values[0] = values[0].copy()
                    values[0][index] = value
        # What the level makes of it stays as it is: the first difference is what counts.
        return results


def blamed(fn, args, primitive, value, **where):
    """What is found where side B has `value` as a result of `primitive`."""
    sides = Program(fn, args, lambda each: each), Altered(fn, args, primitive, value, **where)
    leaves = [np.asarray(each) for each in jax.tree.leaves(args)]
    found = Walk(*sides).level((), (leaves, leaves), ()).found
    return None if found is None else describe(found)


def line_of(fn, text):
    """ "test_blame.py:LINE" of the line of a function that holds a text."""
    lines, first = inspect.getsourcelines(fn)
    return f"test_blame.py:{first + next(i for i, each in enumerate(lines) if text in each)}"


def mlp(x, w):
    hidden = x @ w
    return jnp.tanh(hidden) + 1.0


def test_equal_evaluations_have_no_such_operation():
    assert first_differing_operation(mlp, mlp, X, W) is None
    assert first_differing_operation(mlp, mlp, X, W, modes=("exact", "reference")) is None


def test_the_operation_is_named_with_the_users_line_operands_and_both_patterns():
    found = blamed(mlp, (X, W), "tanh", F32(0.25), index=(1, 0))
    assert found.primitive == "tanh" and found.path == ()
    assert line_of(mlp, "jnp.tanh") in found.line and "(mlp)" in found.line
    assert found.element == (1, 0) and found.dtype == "float32"
    assert found.b_bits == "3e800000"  # 0.25 = 2^-2: exponent 127 - 2 = 125 = 0x7d
    assert found.a_bits == f"{int(np.asarray(jnp.tanh(X @ W))[1, 0].view(np.uint32)):08x}"
    assert found.operands[0].startswith("float32[4, 2]: ")
    assert found.cause == "library function"


def test_a_differing_product_in_plain_and_exact_arithmetic_is_found_on_its_line():
    def product(x, w):
        return (x @ w) * 2.0

    key = jax.random.key(0)
    x, w = (jax.random.normal(each, (32, 32)) for each in jax.random.split(key))
    found = first_differing_operation(product, product, x, w, modes=("plain", "exact"))
    assert found.primitive == "dot_general" and line_of(product, "x @ w") in found.line
    assert found.cause == "reduction order"


def contracted(p, q, c):
    product = p * q
    return product + c


# p = q = 1 + 2^-12, p q = 1 + 2^-11 + 2^-24, c = -(1 + 2^-11).
# Rounded apart: p q is half way between 1 + 2^-11 and the next number, so to even, 1 + 2^-11; the
# sum is 0. Rounded once: 2^-24, of which the bits are (127 - 24) << 23 = 0x33800000.
FACTOR, ADDEND = F32(1 + 2.0**-12), F32(-(1 + 2.0**-11))


def test_a_product_contracted_into_a_sum_is_told_by_its_bits():
    args = (np.full(3, FACTOR), np.full(3, FACTOR), np.full(3, ADDEND))
    found = blamed(contracted, args, "add", F32(2.0**-24), index=(1,))
    assert (found.primitive, found.a_bits, found.b_bits) == ("add", "00000000", "33800000")
    assert found.cause == "contraction"


def test_a_subtraction_can_be_contracted_on_either_side():
    def left(p, q, c):
        return p * q - c

    def right(p, q, c):
        return c - p * q

    args = (np.full(3, FACTOR), np.full(3, FACTOR), np.full(3, -ADDEND))
    assert blamed(left, args, "sub", F32(2.0**-24), index=(0,)).cause == "contraction"
    assert blamed(right, args, "sub", F32(-(2.0**-24)), index=(0,)).cause == "contraction"


def test_another_wrong_sum_is_no_contraction():
    args = (np.full(3, FACTOR), np.full(3, FACTOR), np.full(3, ADDEND))
    assert blamed(contracted, args, "add", F32(2.0**-23), index=(1,)).cause == "unknown"


def test_what_the_compiler_contracts_is_found_beside_the_plain_program():
    args = (np.full(64, FACTOR), np.full(64, FACTOR), np.full(64, ADDEND))
    found = first_differing_operation(contracted, contracted, *args, modes=("plain", "fused"))
    if not np.asarray(jax.jit(contracted)(*args)).any():
        assert found is None  # the compiler of this machine contracts nothing
        return
    assert (found.primitive, found.cause) == ("add", "contraction")
    assert line_of(contracted, "product + c") in found.line


def total(x):
    return jnp.sum(x, axis=1)


def test_a_sum_within_the_bound_of_all_orders_is_an_order_and_beyond_it_a_precision():
    # 3 terms of 1: n = 4 roundings of 2^-24 on a sum of magnitudes 3 is 7.2e-7 for each side.
    ones = np.ones((4, 3), F32)
    ones[0] = 1e6  # another row, whose bound is a million times as wide
    assert blamed(total, (ones,), "reduce_sum", F32(3 + 2.0**-21), index=(2,)).cause == (
        "reduction order"
    )
    found = blamed(total, (ones,), "reduce_sum", F32(3.0078125), index=(2,))  # 8 bits are left
    assert (found.cause, found.element) == ("precision", (2,))


def test_a_product_of_rounded_operands_is_a_lower_precision():
    low = jnp.asarray(X, jnp.bfloat16).astype(jnp.float32) @ jnp.asarray(W)
    exact = X.astype(np.float64) @ W.astype(np.float64)
    far = np.abs(np.asarray(low) - exact)
    index = tuple(int(i) for i in np.unravel_index(np.argmax(far), far.shape))
    found = blamed(mlp, (X, W), "dot_general", F32(low[index]), index=index)
    assert found.cause == "precision"
    near = np.nextafter(np.asarray(X @ W)[index], F32(np.inf))
    assert blamed(mlp, (X, W), "dot_general", near, index=index).cause == "reduction order"


def test_a_conversion_on_one_side_is_a_precision_and_another_function_another_program():
    def half(x):
        return x.astype(jnp.float16).astype(jnp.float32) * 3.0

    def full(x):
        return x * 3.0

    found = first_differing_operation(full, half, X)
    assert found.cause == "precision" and "convert_element_type in B" in found.primitive
    found = first_differing_operation(jnp.tanh, jax.nn.sigmoid, X)
    assert found.primitive == "tanh in A, logistic in B"
    assert (found.cause, found.a_bits) == ("policy graph", None)


def test_another_wiring_of_the_same_operations_is_another_program():
    def first(x, y):
        return (x + y) * (x - y)

    def swapped(x, y):
        return (x + y) * (y - x)

    found = first_differing_operation(first, swapped, X, X + 1)
    assert found.primitive == "sub" and found.cause == "policy graph"
    assert line_of(first, "x - y") in found.line and line_of(swapped, "y - x") in found.line


def test_another_constant_is_shown_on_both_sides():
    def scaled(factor):
        return lambda x: x * factor

    found = first_differing_operation(scaled(2.0), scaled(3.0), X)
    assert found.primitive == "mul" and "the constant 2.0 in A, 3.0 in B" in found.operands


def test_programs_that_give_the_same_bits_are_not_blamed():
    assert first_differing_operation(lambda x: x + x, lambda x: 2 * x, X) is None


def looped(x):
    def body(carry, row):
        carry = jnp.exp(carry * row)
        return carry, carry + 1.0

    return jax.lax.scan(body, x[0], x)


def test_the_pass_of_a_loop_is_named():
    # exp is visited once a pass; its fourth visit is pass 3, or pass 0 of a loop run backwards
    found = walk_of(looped, (X,), "exp", visit=3)
    assert (found.primitive, found.path) == ("exp", ("scan pass 3",))
    backwards = functools.partial(reversed_loop, X[0])
    assert walk_of(backwards, (X,), "exp", visit=3).path == ("scan pass 0",)


def reversed_loop(start, x):
    return jax.lax.scan(lambda c, row: (jnp.exp(c * row), c), start, x, reverse=True)


def walk_of(fn, args, primitive, visit):
    """What is found inside a loop whose results, seen as a whole, are made to differ."""

    class Outside(Altered):
        def evaluate(self, path, inputs):
            results = super().evaluate(path, inputs)
            if path == ():
                for equation, values in zip(self.outline(())[0], results, strict=True):
                    if equation.primitive in BODIES:
                        values[:] = [value + 1 for value in values]
            return results

    sides = (
        Program(fn, args, lambda each: each),
        Outside(fn, args, primitive, F32(0.125), index=(0,), visit=visit),
    )
    leaves = [np.asarray(each) for each in args]
    found = walk(*sides, (leaves, leaves))
    return describe(found)


def test_while_loops_and_branches_are_entered():
    def counted(x):
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))

    found = walk_of(counted, (X[0],), "sin", visit=2)
    assert (found.primitive, found.path) == ("sin", ("while pass 2",))

    def branched(x):
        return jax.lax.cond(x[0] > 0, jnp.cos, jnp.sin, x)

    assert walk_of(branched, (X[3],), "cos", visit=0).path == ("branch 1",)
    assert walk_of(branched, (X[0],), "sin", visit=0).path == ("branch 0",)


def test_the_carry_of_a_loop_goes_on_from_pass_to_pass():
    def doubled(x):
        return jax.lax.scan(lambda c, row: (c * 2.0, jnp.exp(c + row)), x[0], x)

    ones = np.ones((4, 3), F32)
    # the carry before pass 3 is 1 * 2^3 = 8, and exp gets 8 + 1
    assert walk_of(doubled, (ones,), "exp", visit=3).operands == ("float32[3]: 9.0, 9.0, 9.0",)

    def counted(x):
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2.0), (0, x))

    # before pass 2: 1 * 2^2 = 4
    found = walk_of(counted, (ones[0],), "mul", visit=2)
    assert found.operands[0] == "float32[3]: 4.0, 4.0, 4.0"


def test_constants_of_called_functions_stay_theirs():
    calls = [jax.jit(functools.partial(jnp.add, np.full(3, each, F32))) for each in (1.0, 10.0)]

    def called(x):
        return jnp.exp(calls[1](calls[0](x)))

    found = blamed(called, (np.zeros(3, F32),), "exp", F32(1.0), index=(0,))
    assert found.operands == ("float32[3]: 11.0, 11.0, 11.0",)  # 0 + 1 + 10


def test_the_line_is_not_that_of_a_library():
    layer = nn.Dense(2)
    params = layer.init(jax.random.key(0), X)

    def network(x):
        return layer.apply(params, x)

    found = blamed(network, (X,), "dot_general", F32(0.5), index=(0, 0))
    assert line_of(network, "layer.apply") in found.line


def test_rows_of_two_batch_sizes_are_compared():
    args = {"args_b": (X[2:3], W), "rows": [2]}
    assert first_differing_operation(mlp, mlp, X, W, modes=("exact", "exact"), **args) is None

    def by_batch(x, w):
        return mlp(x, w) if len(x) > 1 else jnp.tanh(x @ w) + 2.0

    found = first_differing_operation(by_batch, by_batch, X, W, modes=("exact", "exact"), **args)
    assert found.primitive == "add"
    with pytest.raises(InputError, match="rows: got values of shapes .* want shapes that differ"):
        first_differing_operation(mlp, mlp, X, W, args_b=(X[:2], W), rows=[2])


def test_random_keys_pass_through_both_executors():
    def draws(seed):
        key = jax.random.split(jax.random.key(seed))[1]
        return jax.random.uniform(key, (5,)) + 1.0

    seed = np.uint32(7)
    assert first_differing_operation(draws, draws, seed, modes=("plain", "exact")) is None


def test_an_unknown_mode_is_refused():
    with pytest.raises(InputError, match="modes: got 'quick', want one of plain, fused, exact"):
        first_differing_operation(mlp, mlp, X, W, modes=("plain", "quick"))


def test_a_transformation_of_functions_can_be_a_mode():
    jitted = functools.partial(jax.jit, keep_unused=True)
    assert first_differing_operation(total, total, X, modes=("fused", jitted)) is None
