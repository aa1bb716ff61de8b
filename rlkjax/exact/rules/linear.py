"""Linear algebra, composed from exact float32 operations; small matrices, column by column."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact.errors import UnsupportedPrimitiveError
from rlkjax.exact.interpret import Rule, composed, line_of

Array = jax.Array


def batched(fn: Callable[..., Any], num_axes: int) -> Callable[..., Any]:
    """Maps `fn` of matrices over the leading axes."""
    for _ in range(num_axes):
        fn = jax.vmap(fn)
    return fn


def repeat(steps: int, step: Callable[[Array, Any], Any], state: Any) -> Any:
    """A loop; the body is not even traced for a matrix that has no columns to take."""
    return lax.fori_loop(0, steps, step, state) if steps > 0 else state


def cholesky_matrix(a: Array) -> Array:
    """Lower triangular L with L L^T = A: column j from the exact sums over the columns before it.

    L[j, j] = sqrt(A[j, j] - L[j, :j] . L[j, :j]);
    L[i, j] = (A[i, j] - L[i, :j] . L[j, :j]) / L[j, j].
    """
    size = a.shape[-1]
    rows = jnp.arange(size)

    def column(j: Array, low: Array) -> Array:
        pivot_row = lax.dynamic_index_in_dim(low, j, 0, keepdims=False)
        rest = lax.dynamic_index_in_dim(a, j, 1, keepdims=False) - low @ pivot_row
        square = lax.dynamic_index_in_dim(rest, j, 0, keepdims=False)
        pivot = jnp.where(square > 0, jnp.sqrt(square), jnp.nan)
        values = jnp.where(rows == j, pivot, rest / pivot)
        values = jnp.where(rows >= j, values, 0.0)
        return lax.dynamic_update_index_in_dim(low, values, j, 1)

    low = repeat(size, column, jnp.zeros_like(a))
    good = jnp.all(jnp.isfinite(low))
    return jnp.where(good, low, jnp.where(rows[:, None] >= rows[None, :], jnp.nan, 0.0))


def cholesky(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """cholesky of the lower triangle; a matrix that is not positive definite gives NaN."""

    def fn(a: Array) -> Array:
        return batched(lambda m: cholesky_matrix(jnp.tril(m)), a.ndim - 2)(a)

    return fn


def solve_lower(a: Array, b: Array, unit: bool) -> Array:
    """X with A X = B, A lower triangular: X[i] = (B[i] - A[i, :i] . X[:i]) / A[i, i]."""
    size = a.shape[-1]
    columns = jnp.arange(size)

    def row(i: Array, x: Array) -> Array:
        weights = jnp.where(columns < i, lax.dynamic_index_in_dim(a, i, 0, keepdims=False), 0.0)
        rest = lax.dynamic_index_in_dim(b, i, 0, keepdims=False) - weights @ x
        if not unit:
            rest = rest / a[i, i]
        return lax.dynamic_update_index_in_dim(x, rest, i, 0)

    return repeat(size, row, jnp.zeros_like(b))


def triangular_matrix(a: Array, b: Array, params: Mapping[str, Any]) -> Array:
    """triangular_solve of one matrix, brought to the case of `solve_lower`."""
    lower = params["lower"]
    if params["transpose_a"]:
        a, lower = a.T, not lower
    if not params["left_side"]:
        a, b, lower = a.T, b.T, not lower
    if not lower:
        a, b = a[::-1, ::-1], b[::-1]
    x = solve_lower(a, b, params["unit_diagonal"])
    if not lower:
        x = x[::-1]
    return x if params["left_side"] else x.T


def triangular_solve(params: Mapping[str, Any]) -> Callable[[Array, Array], Array]:
    """triangular_solve."""

    def fn(a: Array, b: Array) -> Array:
        return batched(lambda m, v: triangular_matrix(m, v, params), a.ndim - 2)(a, b)

    return fn


def qr_matrix(a: Array, full: bool) -> tuple[Array, Array]:
    """Q R = A by Householder reflections, column by column; R[j, j] has the sign of -A's pivot."""
    num_rows, num_columns = a.shape
    rows = jnp.arange(num_rows)

    def reflect(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        q, r = state
        x = jnp.where(rows >= j, lax.dynamic_index_in_dim(r, j, 1, keepdims=False), 0.0)
        pivot = lax.dynamic_index_in_dim(x, j, 0, keepdims=False)
        norm = jnp.sqrt(x @ x)
        tip = pivot + jnp.where(pivot < 0, -norm, norm)
        v = jnp.where(rows == j, tip, x)
        square = v @ v
        weight = jnp.where(square == 0, 0.0, 2.0 / square)
        r = r - jnp.outer(v, weight * (v @ r))
        return q - jnp.outer(q @ v, weight * v), r

    steps = min(num_rows - 1, num_columns)
    q, r = repeat(steps, reflect, (jnp.eye(num_rows, dtype=a.dtype), a))
    r = jnp.triu(r)
    width = num_rows if full else min(num_rows, num_columns)
    return q[:, :width], r[:width]


def qr(params: Mapping[str, Any]) -> Callable[[Array], list[Array]]:
    """qr without pivoting."""

    def fn(a: Array) -> list[Array]:
        q, r = batched(lambda m: qr_matrix(m, params["full_matrices"]), a.ndim - 2)(a)
        return [q, r]

    return fn


def unpivoted(rule: Rule) -> Callable[..., Sequence[Any]]:
    """The rule of qr, which refuses to exchange columns."""

    def apply(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        if eqn.params["pivoting"]:
            raise UnsupportedPrimitiveError(
                f"exact has no rule for 'qr' with pivoting=True at {line_of(ops, eqn)}: "
                "use pivoting=False, or native"
            )
        return rule.apply(ops, eqn, args)

    return apply


def lu_matrix(a: Array) -> tuple[Array, Array, Array]:
    """P A = L U with partial pivoting: the first of a column's largest entries is the pivot."""
    num_rows, num_columns = a.shape
    rows, columns = jnp.arange(num_rows), jnp.arange(num_columns)

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        pivots, order, m = state
        column = lax.dynamic_index_in_dim(m, k, 1, keepdims=False)
        best = jnp.argmax(jnp.where(rows >= k, jnp.abs(column), -1.0)).astype(jnp.int32)
        swap = jnp.where(rows == k, best, jnp.where(rows == best, k, rows))
        m, order = m[swap], order[swap]
        pivot_row = lax.dynamic_index_in_dim(m, k, 0, keepdims=False)
        column = lax.dynamic_index_in_dim(m, k, 1, keepdims=False)
        factor = jnp.where((rows > k) & (pivot_row[k] != 0), column / pivot_row[k], 0.0)
        below = m - factor[:, None] * jnp.where(columns > k, pivot_row, 0.0)[None, :]
        stored = jnp.where((columns == k)[None, :] & (rows > k)[:, None], factor[:, None], below)
        m = jnp.where((rows > k)[:, None], stored, m)
        return lax.dynamic_update_index_in_dim(pivots, best, k, 0), order, m

    steps = min(num_rows, num_columns)
    start = (jnp.zeros(steps, jnp.int32), rows.astype(jnp.int32), a)
    pivots, order, m = repeat(steps, step, start)
    return m, pivots, order


def lu(params: Mapping[str, Any]) -> Callable[[Array], list[Array]]:
    """lu: (L below and U on and above the diagonal, pivots, order of the rows)."""
    return lambda a: list(batched(lu_matrix, a.ndim - 2)(a))


def lu_pivots_to_permutation(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """Exchanges of rows, one after the other, as the order that they lead to."""
    size = params["permutation_size"]

    def one(pivots: Array) -> Array:
        def exchange(k: Array, order: Array) -> Array:
            other = pivots[k]
            first, second = order[k], order[other]
            return order.at[k].set(second).at[other].set(first)

        return repeat(pivots.shape[0], exchange, jnp.arange(size, dtype=jnp.int32))

    return lambda pivots: batched(one, pivots.ndim - 1)(pivots)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    makers: dict[str, Callable[[Mapping[str, Any]], Callable[..., Any]]] = {
        "cholesky": cholesky,
        "triangular_solve": triangular_solve,
        "qr": qr,
        "lu": lu,
        "lu_pivots_to_permutation": lu_pivots_to_permutation,
    }
    table = {name: composed(make) for name, make in makers.items()}
    return table | {"qr": Rule("composed", unpivoted(table["qr"]))}
