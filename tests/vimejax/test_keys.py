"""The key schedule: addresses do not collide, and one address is one key."""

import jax
import numpy as np

from vimejax import keys


def words(key):
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_every_part_of_an_address_counts():
    seen = set()
    for seed in (0, 1):
        for stream in keys.Stream:
            run = keys.run_key(seed, stream)
            for environment in (0, 1):
                for episode in (0, 1):
                    key = keys.episode_key(keys.environment_key(run, environment), episode)
                    for step in (0, 1):
                        seen |= {words(keys.step_key(key, step, p)) for p in keys.Purpose}
    # 2 seeds, 4 streams, 2 environments, 2 episodes, 2 steps, 2 purposes
    assert len(seen) == 2 * 4 * 2 * 2 * 2 * 2


def test_training_and_evaluation_of_one_seed_differ():
    assert words(keys.run_key(3, keys.Stream.TRAIN)) != words(keys.run_key(3, keys.Stream.EVALUATE))


def test_the_whole_range_of_seeds_is_told_apart():
    seeds = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    assert len({words(keys.run_key(seed, keys.Stream.TRAIN)) for seed in seeds}) == len(seeds)


def test_numbers_of_the_schedule_never_change():
    assert [int(member) for member in keys.Stream] == [0, 1, 2, 3]
    assert [int(member) for member in keys.Purpose] == [0, 1]


def test_keys_are_typed():
    key = keys.run_key(0, keys.Stream.TRAIN)
    assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert str(jax.random.key_impl(key)) == "threefry2x32"
