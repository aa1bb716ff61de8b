"""The loop over substeps."""

import jax.numpy as jnp

from vimejax.tasks import physics


def test_substeps_follow_one_another():
    # x -> 2 x + 1, three times from 1: 3, 7, 15.
    assert float(physics.repeat(lambda x: 2.0 * x + 1.0, jnp.float32(1.0), 3)) == 15.0
    assert float(physics.repeat(lambda x: 2.0 * x + 1.0, jnp.float32(1.0), 1)) == 3.0
