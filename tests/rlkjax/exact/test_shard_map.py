"""Programs on 1, 2, 4 and 8 virtual devices: the same bits, and those of the reference."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_programs import digest, mesh_of, quick
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from rlkjax.exact.errors import UnsupportedArgumentError, UnsupportedPrimitiveError
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("device_programs.py")


def digests(count: int, part: str) -> dict[str, str]:
    """What the script prints on a number of devices; it fails if the reference differs."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(count), part],
        env={
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}",
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def test_four_devices_give_the_bits_of_one():
    shared = digests(4, "quick")
    alone = {n: digest(got) for n, got, _ in quick(1) if not n.startswith("collectives")}
    assert {n: shared[n] for n in alone} == alone
    assert sum(name.startswith("collectives") for name in shared) == 4


@pytest.mark.slow
def test_the_number_of_devices_changes_no_bit():
    alone = digests(1, "all")
    names = [n for n in alone if not n.startswith("collectives")]
    for count in (2, 4, 8):
        shared = digests(count, "all")
        assert {n: shared[n] for n in names} == {n: alone[n] for n in names}


def test_a_sum_that_is_used_before_the_psum_rounds_on_each_device():
    mesh = mesh_of(1)

    def body(x):
        part = jnp.sum(x)
        return lax.psum(part, "a") + part * 0.0

    fn = jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P(), check_vma=False)
    x = np.float32([1.0, 2.0**-30, 3.0])
    assert np.asarray(exact(fn)(x)).tobytes() == reference(fn)(x).tobytes()


def test_groups_of_devices_are_refused_with_the_users_line():
    mesh = mesh_of(1)

    def body(x):
        return lax.psum(x, "a", axis_index_groups=[[0]])

    fn = jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False)
    with pytest.raises(UnsupportedPrimitiveError, match=r"groups at .*test_shard_map\.py:\d+"):
        exact(fn)(np.ones(2, np.float32))


def test_exact_inside_a_checked_shard_map_names_the_way_out():
    inner = exact(lambda x: lax.psum(x.T @ x, "a"))
    x = np.ones((2**17 + 1, 3), np.float32)  # so long a product is a loop
    checked = jax.shard_map(inner, mesh=mesh_of(1), in_specs=P("a"), out_specs=P())
    with pytest.raises(UnsupportedArgumentError, match=r"checked shard_map at .*test_shard_map"):
        checked(x)
    free = jax.shard_map(inner, mesh=mesh_of(1), in_specs=P("a"), out_specs=P(), check_vma=False)
    assert np.asarray(free(x)).tobytes() == np.full((3, 3), 2**17 + 1, np.float32).tobytes()


def test_an_error_on_one_device_reaches_the_caller():
    mesh = mesh_of(1)
    fn = jax.shard_map(
        lambda x: jax.scipy.special.digamma(lax.psum(x, "a")),
        mesh=mesh,
        in_specs=P("a"),
        out_specs=P("a"),
        check_vma=False,
    )
    with pytest.raises(UnsupportedPrimitiveError, match="no rule for primitive 'digamma'"):
        reference(fn)(np.ones(2, np.float32))


def mixed(x, key):
    """A program of several families of rules."""
    rows = jnp.sort(jnp.tanh(x @ x.T), 0) + jax.random.normal(key, (3, 3))
    return lax.scan(lambda c, r: (c + r, lax.cumprod(r)), rows[0], rows)


MATRIX = np.float32([[1, 2], [3, 4], [5, 6]]) / 7


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
def test_an_exact_function_is_exported_with_stable_text(platform):
    args = MATRIX, jax.random.key(3)
    exported = [
        jax.export.export(jax.jit(exact(mixed)), platforms=[platform])(*args) for _ in range(2)
    ]
    assert exported[0].platforms == (platform,)
    assert exported[0].mlir_module() == exported[1].mlir_module()
    if platform == "cpu":
        for a, b in zip(exported[0].call(*args), exact(mixed)(*args), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
def test_an_exported_function_is_written_and_read_again(platform):
    args = MATRIX, jax.random.key(3)
    exported = jax.export.export(jax.jit(exact(mixed)), platforms=[platform])(*args)
    again = jax.export.deserialize(exported.serialize())
    assert again.mlir_module() == exported.mlir_module()
    if platform == "cpu":
        for a, b in zip(again.call(*args), exact(mixed)(*args), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_sum_of_no_rows_is_plus_zero():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))

    def total(x):
        return lax.psum(jnp.sum(x, 0), "d")

    mapped = jax.shard_map(total, mesh=mesh, in_specs=P("d"), out_specs=P())
    got = np.asarray(exact(mapped)(np.zeros((0, 3), np.float32)))
    assert got.tobytes() == np.zeros(3, np.float32).tobytes()
