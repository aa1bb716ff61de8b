"""The whole way: train a Brax task, play its policy, and show the episode in the page."""

import base64
import json
import re

import numpy as np
import pytest

from rlkjax import cli

pytestmark = pytest.mark.slow  # a physics engine is compiled twice

CONFIG = """\
task: brax/inverted_pendulum
total_steps: 256
platform: cpu
env: {backend: spring, episode_length: 16}
rollout: {num_envs: 8, unroll_length: 16}
network: {policy_hidden: [8], value_hidden: [8]}
ppo: {minibatches: 2}
evaluation: {episodes: 2}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "task.yaml").write_text(CONFIG)
    line = ["train", "--config", str(folder / "task.yaml"), "--run-dir", str(folder / "run")]
    assert cli.main([*line, "--quiet"]) == 0
    return folder / "run"


def test_the_page_holds_the_episode(run):
    assert cli.main(["report", str(run), "--render"]) == 0
    text = (run / "report.html").read_text()
    assert len(text) < 2_000_000 and 'class="still"' in text and "src=" not in text
    data = json.loads(re.search('id="film">(.*?)</script>', text)[1])
    poses = np.frombuffer(base64.b64decode(data["poses"]), "<f4").reshape(-1, data["bodies"], 7)
    returns = np.frombuffer(base64.b64decode(data["returns"]), "<f4")
    steps = len(poses) - 1
    assert data["bodies"] == 3 and 1 <= steps <= 16 and returns[-1] == steps  # a point a step
    # The return is one of the two that the last evaluation recorded.
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "evaluation"][-1]
    assert last["return_min"] <= returns[-1] <= last["return_max"]


def test_a_damaged_checkpoint_is_a_sentence(run, capsys):
    state = next(run.glob("checkpoints/*/state.safetensors"))
    data = state.read_bytes()
    state.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    try:
        assert cli.main(["report", str(run), "--render"]) == 1
    finally:
        state.write_bytes(data)
    text = (run / "report.html").read_text()
    assert "This could not be computed: checkpoint RUN/checkpoints/" in text
    assert "NOT verified" in text and str(run) not in text
