"""Whole exact runs: one `bits` head, whatever the cores, flags, devices and versions.

The heads are stored in tests/data/bits_heads.json; `python -m benchmarks.invariance --heads FILE`
computes them again. A head that moves needs a line in the changelog.
"""

import hashlib
import json
from pathlib import Path

import pytest

from benchmarks import invariance
from benchmarks.invariance import DEVICES, Among, Condition
from rlkjax import config as configs

FILE = Path(__file__).resolve().parents[1] / "data" / "bits_heads.json"
RUNS = json.loads(FILE.read_text())["runs"]
OTHERS = sorted(set(RUNS) - {"cartpole"})

ONE_CORE = Condition("one core, no FMA", "--xla_cpu_max_isa=AVX", cores=1)
SPREAD = Condition("four devices", DEVICES + "4", spread=4)
ALL = Condition("all of it", f"{DEVICES}4 --xla_cpu_max_isa=AVX", cores=1, spread=4)
BARE = Condition("wide vectors, no flag pinned", "--xla_cpu_prefer_vector_width=512", pinned=False)


def head(name, condition, mode="exact"):
    return invariance.show(mode, condition, config(name))


def config(name):
    return configs.config_from_mapping(RUNS[name]["config"], name)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_stored_head_belongs_to_the_config_beside_it(name):
    digest = hashlib.sha256(configs.program_config(config(name))).hexdigest()
    assert digest == RUNS[name]["program"]


@pytest.mark.parametrize("condition", [ONE_CORE, SPREAD], ids=lambda each: each.name)
def test_a_run_has_the_stored_head_under(condition):
    assert head("cartpole", condition) == RUNS["cartpole"]["bits"]


@pytest.mark.slow
@pytest.mark.parametrize("condition", [ALL, BARE], ids=lambda each: each.name)
@pytest.mark.parametrize("name", OTHERS)
def test_every_task_and_option_has_the_stored_head_under(name, condition):
    assert head(name, condition) == RUNS[name]["bits"]


@pytest.mark.slow
def test_the_reference_in_numpy_has_the_stored_head():
    assert head("cartpole", Condition("reference"), mode="reference") == RUNS["cartpole"]["bits"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_environment_17_moves_alike_among_any_number(name):
    alone, few, many = (head(name, Among(str(n), n)) for n in (1, 18, 1000))
    assert alone == few == many


@pytest.mark.slow
def test_the_hash_of_plain_jax_sees_that_bits_move():
    default, capped = Condition("default"), Condition("no FMA", "--xla_cpu_max_isa=AVX")
    assert head("pendulum", default, mode="plain") != head("pendulum", capped, mode="plain")


MAXIMA = """
import jax.numpy as jnp, numpy as np
from rlkjax.exact.transform import exact
x = np.full((128, 128), -0.0, np.float32)
x[0, 3], x[1, 3] = np.nan, 0.0
print(np.asarray(exact(lambda v: jnp.max(v, 1))(x))[:3].view(np.uint32).tolist())
"""
# NaN wins, +0 is larger than -0: row 0 holds a NaN, row 1 one +0, row 2 none.
WANT = str([0x7FC00000, 0x00000000, 0x80000000])


# Under XLA's own flags a maximum of floats, from 2^14 elements on, drops NaN and the sign of zero.
@pytest.mark.parametrize("flags", ["", "--xla_cpu_experimental_ynn_fusion_type="])
def test_a_maximum_keeps_nan_and_the_sign_of_zero_under(flags, python):
    done = python(MAXIMA, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
    assert done.stdout.strip() == WANT, done.stderr
