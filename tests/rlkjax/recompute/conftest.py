"""One iteration of the small run as the reference computes it, which agrees with itself."""

from typing import Any, NamedTuple

import numpy as np
import pytest


class Given(NamedTuple):
    """A config, how its iterations are recomputed, and the buffers of its iteration 0."""

    config: Any
    recompute: Any
    fields: dict[str, np.ndarray]

    def flipped(self, buffer, index, bit):
        """The buffers with one bit of one element turned over."""
        changed = np.array(self.fields[buffer])
        changed.view(f"u{changed.dtype.itemsize}")[index] ^= 1 << bit
        return {**self.fields, buffer: changed}


@pytest.fixture(scope="session")
def given(configure) -> Given:
    """Iteration 0 of the small run."""
    from rlkjax.environment import make_environment
    from rlkjax.exact.reference import reference
    from rlkjax.learner import Stages, make_stages
    from rlkjax.recompute import iteration

    config = configure("numerics=exact")
    stages = Stages(*map(reference, make_stages(config, make_environment(config))))
    train, world = stages.init(np.uint32(config.seed))
    world_after, segment, _ = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)
    after, _ = stages.update(train, segment, rescored, advantages)
    trees = {
        "train": train,
        "world": world,
        "world_after": world_after,
        "segment": segment,
        "rescored": rescored,
        "advantages": advantages,
        "after": after,
    }
    return Given(config, iteration.make_recompute(config), iteration.flat(trees))
