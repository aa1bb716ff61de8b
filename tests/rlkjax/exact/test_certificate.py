"""certify: classes of primitives, digests that follow the program, refusals with their line."""

import jax
import jax.numpy as jnp
from device_programs import mesh_of
from jax.sharding import PartitionSpec as P

from rlkjax.exact.certificate import certify


def policy(x, key):
    """A small program with every class of primitive but the refused one."""
    return jnp.tanh(x @ x.T).sum() + jax.random.normal(key, ()), jax.nn.relu(x)


def test_lists_primitives_by_class_and_depends_on_nothing():
    found = certify(policy, jnp.ones((3, 3)), jax.random.key(0))
    assert found.primitives["defined"]["tanh"] == 1
    assert found.primitives["defined"]["dot_general"] == 1
    assert found.primitives["composed"] == {"erf_inv": 1}
    assert "max" in found.primitives["moved"]
    assert found.depends_on == () and found.refused == {}
    assert sorted(found.stablehlo) == ["cpu", "cuda", "rocm"]


def test_digests_follow_the_program_and_nothing_else():
    one = certify(policy, jnp.ones((3, 3)), jax.random.key(0), platforms=("cpu",))
    again = certify(policy, jnp.zeros((3, 3)), jax.random.key(1), platforms=("cpu",))
    assert one == again
    wider = certify(policy, jnp.ones((4, 3)), jax.random.key(0), platforms=())
    other = certify(lambda x: x * 2.0, jnp.ones(3), platforms=())
    third = certify(lambda x: x * 3.0, jnp.ones(3), platforms=())
    assert len({one.jaxpr, wider.jaxpr, other.jaxpr, third.jaxpr}) == 4


def test_a_refused_primitive_is_listed_with_its_line():
    found = certify(lambda x: jax.scipy.special.digamma(x) + 1.0, jnp.ones(3))
    assert list(found.refused) == ["digamma"]
    assert "test_certificate.py" in found.depends_on[0]
    assert found.stablehlo == {}


def test_a_refused_library_function_is_listed_with_the_line_of_its_call():
    found = certify(lambda x: jnp.linalg.eigh(x @ x.T), jnp.ones((3, 3)))
    assert "test_certificate.py" in found.refused["eigh"]


def test_the_digest_knows_how_arrays_are_split():
    def split(spec):
        body = jax.shard_map(lambda x: x * 2.0, mesh=mesh_of(1), in_specs=spec, out_specs=spec)
        return certify(body, jnp.ones((2, 2)), platforms=()).jaxpr

    assert split(P("a")) != split(P(None, "a"))
