"""Correctly rounded functions: a strided sweep of all float32, hard inputs, and special values.

`python -m benchmarks.exact_functions --all` tries all 2^32 inputs.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from benchmarks.exact_functions import wrong_inputs
from rlkjax.exact import correct, rounding
from rlkjax.exact.transform import exact

INF, NAN = np.inf, np.nan
HARD = Path(__file__).parent / "data" / "hard_inputs.json"


@pytest.mark.parametrize("name", sorted(rounding.UNARY))
def test_no_wrong_result_on_a_sweep(name):
    with jax.enable_x64(True):
        tried, wrong = wrong_inputs(name, 16411)
    assert tried > 250_000
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(rounding.UNARY))
def test_no_wrong_result_on_a_finer_sweep(name):
    with jax.enable_x64(True):
        assert wrong_inputs(name, 211)[1] == []


@pytest.mark.parametrize("name", sorted(rounding.UNARY))
def test_every_input_near_a_rounding_boundary_is_right(name):
    words = json.loads(HARD.read_text())["inputs"][name].split()
    points = np.array([int(word, 16) for word in words], np.uint32).view(np.float32)
    points = np.concatenate([points, -points]) if rounding.UNARY[name].odd else points
    got = np.asarray(exact(getattr(lax, name))(points))
    assert got.tobytes() == correct.nearest(name, points).tobytes()


def test_values_worked_by_hand():
    # e = 2.718281828…: neighbours 2.71828174 and 2.71828198, the first is nearer
    assert exact(jnp.exp)(1.0) == np.float32(2.7182817)
    # exp(2^-24) = 1 + 2^-24 + 2^-49 + …, just above the middle of 1 and 1 + 2^-23
    assert exact(jnp.exp)(np.float32(2.0**-24)) == np.float32(1 + 2.0**-23)
    # cos(2^-12) = 1 - 2^-25 + 2^-48 / 24 - …, just above the middle of 1 - 2^-24 and 1
    assert exact(jnp.cos)(np.float32(2.0**-12)) == np.float32(1.0)
    # 1 / (1 + e^-x) = 1/2 + x / 4 - x^3 / 48 at x = 3 * 2^-23: just below the middle
    assert exact(jax.nn.sigmoid)(np.float32(3 * 2.0**-23)) == np.float32(0.5 + 2.0**-24)


SPECIAL = {
    "exp": [(-INF, 0.0), (INF, INF), (89.0, INF), (-104.0, 0.0), (NAN, NAN), (0.0, 1.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (1.0, 0.0), (NAN, NAN)],
    "log1p": [(-1.0, -INF), (-2.0, NAN), (INF, INF), (-0.0, -0.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (-0.0, -0.0)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0), (NAN, NAN)],
    "logistic": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (NAN, NAN)],
    "sin": [(INF, NAN), (-0.0, -0.0), (2.0**21, NAN)],
    "cos": [(INF, NAN), (0.0, 1.0), (2.0**21, NAN)],
    "asin": [(1.0, np.float32(np.pi / 2)), (1.5, NAN), (-0.0, -0.0)],
    "acos": [(1.0, 0.0), (-1.0, np.float32(np.pi)), (1.0000001, NAN)],
    "atan": [(INF, np.float32(np.pi / 2)), (-0.0, -0.0)],
    "atanh": [(1.0, INF), (-1.0, -INF), (2.0, NAN)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (INF, INF)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN)],
    "cbrt": [(-27.0, -3.0), (INF, INF), (-0.0, -0.0)],
    "erf": [(INF, 1.0), (-INF, -1.0), (-0.0, -0.0), (NAN, NAN)],
}


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values(name):
    points = np.float32([x for x, _ in SPECIAL[name]])
    values = np.float32([y for _, y in SPECIAL[name]])
    got = np.asarray(exact(getattr(lax, name))(points))
    assert (
        got.view(np.uint32).tolist()
        == np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32)).tolist()
    )


def pairs(seed: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs: ordinary, any bit pattern, special, near 1 with a large second, integers."""
    rng = np.random.default_rng(seed)
    any_bits = rng.integers(0, 2**32, (2, count), dtype=np.uint64).astype(np.uint32)
    any_bits[(any_bits & 0x7F800000) == 0] &= 0x80000000
    edge = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        INF,
        -INF,
        NAN,
        2.0,
        -3.0,
        0.5,
        2.5,
        1e38,
        2.0**24 + 2,
        0.99999994,
    ]
    grid = np.meshgrid(np.float32(edge), np.float32(edge))
    near = 1 + rng.normal(size=count) * 1e-4
    whole = rng.integers(1, 5000, count)
    small = rng.choice([2, 3, 0.5, 1.5, -1, 4, 0.25], count)
    found = [
        (np.exp(rng.normal(size=count) * 3), rng.normal(size=count) * 8),
        tuple(any_bits.view(np.float32)),
        (grid[0].ravel(), grid[1].ravel()),
        (near, rng.normal(size=count) * 1e4),
        (whole, small),
    ]
    return [(np.float32(x), np.float32(y)) for x, y in found]


@pytest.mark.parametrize(
    ("name", "fn"), [("pow", jnp.power), ("atan2", jnp.arctan2), ("div", jnp.divide)]
)
def test_functions_of_two_numbers_are_nearest(name, fn):
    for x, y in pairs(3, 60_000):
        got, want = np.asarray(exact(fn)(x, y)), correct.nearest(name, x, y)
        differ = got.view(np.uint32) != want.view(np.uint32)
        assert not differ.any(), (x[differ][:3], y[differ][:3])


def test_the_judge_settles_ties_and_flushes():
    # 0.5 + 2^-25 is the middle of 0.5 and 0.5 + 2^-24: even wins
    assert correct.decide(0.5 + 2.0**-25, 0.5, 0.5 + 2.0**-24) == np.float32(0.5)
    y = np.float64(
        [2.0**-127, -(2.0**-130), 2.0**-126 * (1 - 2.0**-25), 2.0**-126 * (1 - 2.0**-24)]
    )
    got = correct.to_float32(y).view(np.uint32).tolist()
    assert got == [0, 0x80000000, 0x00800000, 0]


@pytest.mark.parametrize("name", sorted(rounding.UNARY))
@pytest.mark.parametrize("size", [jnp.abs, jnp.square, jnp.exp], ids=["abs", "square", "exp"])
def test_nan_passes_where_the_compiler_knows_that_the_operand_is_no_negative_number(name, size):
    # XLA takes |x| >= 0 for true, also where x is NaN
    rows = np.float32([[NAN, 1.0, 2.0], [0.5, NAN, 0.25]])
    got = np.asarray(exact(lambda x: getattr(lax, name)(size(x)))(rows))
    assert np.isnan(got[np.isnan(rows)]).all()


def test_a_log_of_a_sum_of_magnitudes_is_nan_beside_a_nan():
    rows = np.float32([[NAN, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    got = np.asarray(exact(lambda x: jax.nn.logsumexp(x, axis=1))(rows))
    assert np.isnan(got[0]) and got[1] == np.float32(np.log(4.0))
