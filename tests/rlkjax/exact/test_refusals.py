"""What exact refuses: every message names the user's file and line, whatever the nesting."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.scipy.special import digamma, gammaln

from rlkjax.exact import errors
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

X = jnp.ones(3)
TWICE = jnp.ones(2)
PRIMITIVE, DTYPE = errors.UnsupportedPrimitiveError, errors.UnsupportedDtypeError
CONTROL, ARGUMENT = errors.UnsupportedControlFlowError, errors.UnsupportedArgumentError
RBG = jax.random.key(0, impl="rbg")


def test_fast_math_is_refused(monkeypatch):
    for flag in ("--xla_cpu_enable_fast_math=true", "--xla_cpu_enable_fast_math --xla_x=1"):
        monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_max_isa=AVX {flag}")
        with pytest.raises(errors.UnsupportedSettingError, match="remove the flag"):
            exact(jnp.sin)(X)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    assert exact(jnp.sin)(X).shape == (3,)


@pytest.mark.parametrize("transform", [exact, reference])
def test_another_layout_of_random_numbers_is_refused(transform):
    def split(key):
        return jax.random.key_data(jax.random.split(key))

    for fn in (lambda key: jax.random.normal(key, (3,)), split):
        with (
            jax.threefry_partitionable(False),
            pytest.raises(
                errors.UnsupportedSettingError, match=r"is off at .*test_refusals\.py:\d+"
            ),
        ):
            transform(fn)(jax.random.key(3))


@jax.custom_vjp
def own(x):
    return x


STATIC = jax.jit(jnp.full_like, static_argnums=1)
# fmt: off
own.defvjp(lambda x: (x, x), lambda x, g: (lax.digamma(g),))
INSIDE = {
    "alone": (PRIMITIVE, "'digamma'", lambda x: digamma(x)),
    "scan": (PRIMITIVE, "'digamma'", lambda x: lax.scan(lambda c, v: (digamma(c), v), x, TWICE)),
    "while": (PRIMITIVE, "'digamma'", lambda x: lax.while_loop(lambda c: c[0] > 0, digamma, x)),
    "cond": (PRIMITIVE, "'digamma'", lambda x: lax.cond(x[0] > 0, digamma, jnp.sin, x)),
    "vmap": (PRIMITIVE, "'digamma'", lambda x: jax.vmap(digamma)(x)),
    "grad": (PRIMITIVE, "'lgamma'", lambda x: jax.grad(lambda x: gammaln(x).sum())(x)),
    "hessian": (PRIMITIVE, "'lgamma'", lambda x: jax.hessian(lambda x: gammaln(x).sum())(x)),
    "remat": (PRIMITIVE, "'lgamma'", lambda x: jax.checkpoint(gammaln)(x)),
    "jit": (PRIMITIVE, "'digamma'", lambda x: jax.jit(digamma)(x)),
    "library": (PRIMITIVE, "'eigh'", lambda x: jnp.linalg.eigh(jnp.outer(x, x))),
    "gamma": (PRIMITIVE, "'random_gamma'", lambda x: jax.random.gamma(jax.random.key(0), x)),
    "callback": (PRIMITIVE, "a host callback has", lambda x: jax.pure_callback(np.sin, x, x)),
    "io": (PRIMITIVE, "a host callback has", lambda x: io_callback(np.sin, x, x)),
    "print": (PRIMITIVE, "a host callback has", lambda x: jax.debug.print("{x}", x=x)),
    "token": (PRIMITIVE, "'create_token'", lambda x: (lax.create_token(x), x)[1]),
    "pivots": (PRIMITIVE, "'qr' with pivoting", lambda x: lax.linalg.qr(x[:, None], pivoting=True)),
    "bits": (PRIMITIVE, "'reduce_precision' to 8 and 7", lambda x: lax.reduce_precision(x, 8, 7)),
    "float16": (DTYPE, "holds float16", lambda x: x.astype(jnp.float16) * 2),
    "bfloat16": (DTYPE, "holds bfloat16", lambda x: jax.grad(lambda x: x.astype("bfloat16")[0])(x)),
    "complex": (DTYPE, "holds complex64", lambda x: jnp.abs(jnp.fft.fft(x))),
    "float64": (DTYPE, "float64 is asked for", lambda x: x.astype(jnp.float64)),
    "generator": (DTYPE, "key<rbg>", lambda x: jax.random.key(0, impl="rbg")),
    "if": (CONTROL, "jnp.where", lambda x: x if x[0] > 0 else -x),
    "if in scan": (CONTROL, "lax.cond", lambda x: lax.scan(lambda c, v: (c if c else c, v), 1, x)),
    "float": (CONTROL, "traced once", lambda x: x * float(x[0])),
    "item": (CONTROL, "traced once", lambda x: x * x[0].item()),
    "range": (CONTROL, "traced once", lambda x: sum(range(x[0].astype(int)))),
    "numpy": (CONTROL, "traced once", lambda x: np.sin(x)),
    "mask": (CONTROL, "traced once", lambda x: x[x > 0]),
    "shape": (CONTROL, "a static shape", lambda x: jnp.ones(x[0].astype(int))),
    "nonzero": (CONTROL, "a static shape", lambda x: jnp.nonzero(x)[0]),
    "static": (CONTROL, "functools.partial", lambda x: STATIC(x, x)),
    "text": (ARGUMENT, "returns str as result [1]", lambda x: (x, "note")),
    "object": (ARGUMENT, "returns object as result ['a']", lambda x: {"a": object()}),
    "half": (DTYPE, "holds float16", lambda x: np.ones(3, np.float16)),
}
# fmt: on


@pytest.mark.parametrize("transform", [exact, reference])
@pytest.mark.parametrize("name", sorted(INSIDE))
def test_a_refusal_names_the_line_of_the_function(name, transform):
    error, text, fn = INSIDE[name]
    with pytest.raises(error, match=re.escape(text)) as caught:
        transform(fn)(X)
    lines = re.findall(r"test_refusals\.py:(\d+)", str(caught.value))
    assert [int(n) for n in lines] == [fn.__code__.co_firstlineno], str(caught.value)
    assert "rlkjax/exact/" not in str(caught.value).replace("tests/rlkjax/exact/", "")


OUTSIDE = {
    "float64": (DTYPE, "argument 0 of", np.ones(3)),
    "float16": (DTYPE, "argument 0 of", np.ones(3, np.float16)),
    "int64": (DTYPE, "argument 0 of", np.ones(3, np.int64)),
    "text": (ARGUMENT, "is str, want an array; bind it with functools.partial", "a"),
    "deep": (ARGUMENT, "argument 0['b'][1] of", {"a": X, "b": [X, "c"]}),
    "generator": (DTYPE, "only threefry keys", RBG),
}


@pytest.mark.parametrize("transform", [exact, reference])
@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_a_refused_argument_names_the_line_of_the_call(name, transform):
    error, text, value = OUTSIDE[name]
    with pytest.raises(error, match=re.escape(text)) as caught:
        transform(lambda x: X)(value)
    assert "test_refusals.py:" in str(caught.value)
    assert "(test_a_refused_argument_names_the_line_of_the_call)" in str(caught.value)


@pytest.mark.parametrize("transform", [exact, reference])
def test_a_library_function_alone_names_the_line_of_the_call(transform):
    for fn in (digamma, jax.jit(digamma), jax.vmap(digamma)):
        with pytest.raises(PRIMITIVE, match=r"test_refusals\.py:\d+ \(test_a_library"):
            transform(fn)(X)
        with pytest.raises(PRIMITIVE, match=r"'digamma' at .*test_refusals\.py:\d+"):
            jax.jit(exact(fn))(X)


def test_a_backward_rule_names_the_line_of_the_derivative():
    with pytest.raises(PRIMITIVE, match=r"'digamma' at .*test_refusals\.py:\d+:.*test_a_backward"):
        exact(jax.grad(lambda x: own(x).sum()))(X)


def test_what_is_no_function_is_refused():
    with pytest.raises(ARGUMENT, match=r"fn of exact is int at .*test_refusals.*, want a function"):
        exact(3)


def test_errors_of_the_user_pass_through():
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        exact(lambda x: 1 / 0)(X)
    with pytest.raises(TypeError, match="same shape, got"):
        exact(lambda x: x @ jnp.ones(4))(X)


def test_an_object_without_a_hash_is_refused_and_its_method_is_not():
    class Scaled(list):
        def __call__(self, x):
            return x * self[0]

    with pytest.raises(ARGUMENT, match=r"Scaled without a hash.*test_refusals.py.*__call__"):
        exact(Scaled([2.0]))
    assert exact(Scaled([2.0]).__call__)(X).tolist() == [2.0, 2.0, 2.0]
