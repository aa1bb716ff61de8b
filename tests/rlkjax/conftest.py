"""Small runs: their programs are compiled once a session, whatever test asks for them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SMALL = """\
# Six iterations of 4 x 8 steps, with both endings of an episode, evaluations and checkpoints.
# Native programs compile in half the time; what exact numerics does has tests of its own.
task: cartpole
total_steps: 192
platform: cpu
numerics: native
env: {episode_length: 10}
rollout: {num_envs: 4, unroll_length: 8}
network: {policy_hidden: [8], value_hidden: [8]}
ppo: {epochs: 2, minibatches: 2, learning_rate: 1e-2}
evaluation: {every: 3, episodes: 4}
checkpoint: {every: 2, keep: 2}
"""


class World(NamedTuple):
    """A config, its environment, its stages as functions and as programs."""

    config: object
    env: object
    stages: object
    programs: object


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """The config file of the small run."""
    path = tmp_path_factory.mktemp("config") / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def configure(small):
    """The small config with some keys changed: configure("ppo.epochs=1") -> Config."""
    from rlkjax import config as configs

    return lambda *overrides: configs.load_config(small, overrides)


@pytest.fixture(scope="session")
def programs_of():
    """(config, env) -> stages and programs; each program config is compiled once."""
    from rlkjax import config as configs
    from rlkjax.learner import make_stages
    from rlkjax.programs import compile_stages

    made = {}

    def build(config, env):
        key = configs.program_config(config)
        if key not in made:
            stages = make_stages(config, env)
            made[key] = stages, compile_stages(stages)
        return made[key]

    return build


@pytest.fixture(scope="session")
def world(configure, programs_of) -> Callable[..., World]:
    """The small run with some keys changed: world("ppo.epochs=1") -> World."""
    from rlkjax import launch

    def build(*overrides: str) -> World:
        config = configure(*overrides)
        env = launch.make_environment(config)
        return World(config, env, *programs_of(config, env))

    return build


@pytest.fixture
def shared_programs(monkeypatch, programs_of):
    """Lets `launch.prepare`, and so the train command in this process, reuse programs."""
    from rlkjax import launch

    pending = []

    def stages_of(config, env):
        pending.append((config, env))
        return "stages"

    def compiled(stages, transform):
        return programs_of(*pending.pop())[1]

    monkeypatch.setattr(launch, "make_stages", stages_of)
    monkeypatch.setattr(launch, "compile_stages", compiled)


@pytest.fixture
def prepare(configure, shared_programs):
    """A run ready for `loop.train`: prepare(folder, "seed=1", resume=True) -> Run."""
    from rlkjax import launch, run_folder

    def build(folder: Path, *overrides: str, resume: bool = False, machine=None):
        run_folder.make(folder)
        machine = machine or {"device.platform": "cpu"}
        return launch.prepare(configure(*overrides), folder, resume=resume, machine=machine)[0]

    return build


@pytest.fixture
def command(small, shared_programs, capsys):
    """The train command in this process: command("--run-dir", folder) -> (status, out, err)."""
    from rlkjax import cli, train

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        line: Sequence[str] = ["--config", str(small), *map(str, arguments)]
        status = cli.run(train.main, line)
        return status, *capsys.readouterr()

    return run
