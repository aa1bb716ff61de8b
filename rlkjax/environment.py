"""The world that a config names, wrapped as the learner steps it."""

from rlkjax.config import Config
from vimejax import registry
from vimejax.types import Environment


def make_environment(config: Config) -> Environment:
    """The wrapped environment that a config names.

    Args:
      config: its `task` and `env`.

    Returns:
      The environment.

    Raises:
      VimeError: no such task or backend, or an engine that is not installed.
    """
    env = config.env
    return registry.make(
        config.task,
        backend=env.backend,
        dt=env.dt,
        substeps=env.substeps,
        episode_length=env.episode_length,
        action_repeat=env.action_repeat,
    )
