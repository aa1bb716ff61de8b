"""Counts of who reads a value, and what they lead to in the compiled program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax.exact import sharing
from rlkjax.exact.kernels import library
from rlkjax.exact.transform import exact

X = np.linspace(-2, 2, 64 * 3, dtype=np.float32).reshape(64, 3)


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    """What loops compute again; a kernel reads from memory."""
    monkeypatch.setattr(library, "loaded", lambda: False)


def counts(fn, *args) -> dict[str, list[int]]:
    """Name of a primitive -> how often the results of its equations are read."""
    jaxpr = jax.make_jaxpr(fn)(*args).jaxpr
    uses = sharing.uses(jaxpr)
    found: dict[str, list[int]] = {}
    for eqn in jaxpr.eqns:
        found.setdefault(eqn.primitive.name, []).append(uses.get(eqn.outvars[0], 0))
    return found


def divisions(fn) -> int:
    """Divisions by an unknown 1 in the lowered program; `fn` itself has none."""
    return jax.jit(exact(fn)).lower(X).as_text().count("stablehlo.divide")


def test_a_sum_reads_twice_and_a_result_is_written_once():
    assert counts(lambda x: (x * x).sum(), X) == {"mul": [2], "reduce_sum": [1]}
    assert counts(lambda x: [x + 1.0] * 2, X) == {"add": [1]}


def test_a_kernel_reads_once_from_memory(monkeypatch):
    monkeypatch.setattr(library, "loaded", lambda: True)
    weights = np.ones((3, 64), np.float32)
    assert counts(lambda x: (x * x).sum(), X)["mul"] == [1]
    assert counts(lambda x: jnp.exp(x) @ weights, X)["exp"] == [1]
    jaxpr = jax.make_jaxpr(lambda x: jnp.exp(x) @ weights)(X).jaxpr
    assert sharing.work(jaxpr.eqns[-1], [100, 0]) == 0


def test_an_element_that_meets_several_is_read_for_each():
    assert counts(lambda x: jnp.exp(x[:, :1]) * x, X)["exp"] == [2]
    assert counts(lambda x: jnp.exp(x) * x, X)["exp"] == [1]


def test_who_reads_what_was_moved_reads_the_value():
    def fn(x):
        y = jnp.sin(x)
        return y.T.reshape(-1) + 1.0, y[:, 0] * 2.0

    assert counts(fn, X)["sin"] == [2]


def test_readers_inside_a_call_count():
    inner = jax.jit(lambda y: (y + 1.0, y * 2.0))
    assert counts(lambda x: inner(jnp.cos(x)), X)["cos"] == [2]


def test_a_function_is_computed_once_if_it_is_read_twice_and_left_alone_otherwise():
    assert divisions(lambda x: jnp.exp(x) + 1.0) == 0
    assert divisions(lambda x: jnp.exp(x).sum(0)) == 1
    assert divisions(lambda x: (lambda y: (y[::-1] + 1.0, y * 2.0))(jnp.exp(x))) == 1


def test_what_takes_little_work_is_repeated():
    assert divisions(lambda x: (x * x).sum(0)) == 0
