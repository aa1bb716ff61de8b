"""Configs: what loads, what is refused and how it is said, and the canonical bytes (A18, A26)."""

import dataclasses
import json
import random
from pathlib import Path

import pytest

from rlkjax import config_rules, config_yaml
from rlkjax.config import (
    Config,
    canonical_config,
    config_from_mapping,
    iterations,
    load_config,
    options,
    parse_canonical,
    program_config,
    steps_per_iteration,
)
from rlkjax.errors import InputError

LEAST = "task: cartpole\ntotal_steps: 100_000\n"


def load(folder: Path, text: str, *changes: str) -> Config:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, changes)


def refusal(folder: Path, text: str, *changes: str) -> str:
    with pytest.raises(InputError, match="got|want|missing|nested|YAML|aliases") as caught:
        load(folder, text, *changes)
    return str(caught.value)


# What loads


def test_two_keys_are_enough(tmp_path: Path) -> None:
    config = load(tmp_path, LEAST)
    assert config.task == "cartpole" and config.total_steps == 100_000
    assert config.rollout.num_envs == 8 and config.network.policy_hidden == (64, 64)


def test_yaml_1_2_numbers(tmp_path: Path) -> None:
    text = LEAST + "ppo: {learning_rate: 3e-4, discount: 1}\nnetwork: {policy_hidden: []}\n"
    config = load(tmp_path, text)
    assert config.ppo.learning_rate == 3e-4
    assert type(config.ppo.discount) is float
    assert config.network.policy_hidden == ()


def test_overrides_are_yaml_and_win(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        LEAST + "seed: 3\n",
        "seed=0x10",
        "ppo.value_clip_epsilon=0.1",
        "network.policy_hidden=[8, 4]",
        "ppo.value_clip_epsilon=null",
    )
    assert config.seed == 16
    assert config.ppo.value_clip_epsilon is None
    assert config.network.policy_hidden == (8, 4)


def test_a_config_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="seed"):
        load(tmp_path, LEAST).seed = 1  # type: ignore[misc]


def test_iterations_round_up() -> None:
    # One iteration is 4 envs x 10 actions x 2 repeats = 80 steps; 801 steps need 11 of them.
    config = config_from_mapping(
        {
            "task": "cartpole",
            "total_steps": 801,
            "env": {"action_repeat": 2},
            "rollout": {"num_envs": 4, "unroll_length": 10},
        },
        "test",
    )
    assert steps_per_iteration(config) == 80
    assert iterations(config) == 11


# What is refused


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "ppo: {learning_rte: 1e-3}",
            r"ppo.learning_rte: unknown key; did you mean ppo\.learning_rate\?",
        ),
        ("total_step: 4", r"total_step: unknown key; did you mean total_steps\?"),
        ("num_envs: 4", "num_envs: unknown key here; it belongs at rollout.num_envs"),
        ("wholly_new: 4", "wholly_new: unknown key; the known ones are task, total_steps"),
        ('seed: "3"', 'seed: got "3", want an integer, at least 0 and at most 4294967295; remove'),
        ("seed: true", "seed: got true, want an integer"),
        ("seed: -1", "seed: got -1, want an integer, at least 0"),
        ("seed: 4294967296", "seed: got 4294967296, want an integer"),
        ("seed: 1e3", "seed: got 1000.0, want an integer, .*; write 1000"),
        ("seed:", "seed: got null, want an integer"),
        ("ppo: {discount: .nan}", "ppo.discount: got NaN, want a finite number"),
        ("ppo: {learning_rate: .inf}", "ppo.learning_rate: got Infinity, want a finite number"),
        ("ppo: {learning_rate: 1e999}", "ppo.learning_rate: got Infinity, want a finite number"),
        ("ppo: {learning_rate: 1e-60}", "ppo.learning_rate: got 1e-60, which float32 cannot hold"),
        ("ppo: {clip_epsilon: 0}", "ppo.clip_epsilon: got 0, want .* above 0 and below 1"),
        ("ppo: {clip_epsilon: 1.0}", "ppo.clip_epsilon: got 1.0, want"),
        ("ppo: {learning_rate: -1e-9}", "ppo.learning_rate: got -1e-09, want .* at least 0"),
        ("ppo: {normalize_advantage: yes}", 'got "yes", want true or false; write true'),
        ("ppo: {normalize_advantage: 0}", "got 0, want true or false; write false"),
        ("network: {activation: thanh}", "want one of tanh, relu, swish; did you mean tanh"),
        ("network: {policy_hidden: [64, 0]}", "network.policy_hidden.1: got 0, want an integer"),
        ("network: {policy_hidden: 64}", "network.policy_hidden: got 64, want a list"),
        ("network: 3", "network: got 3, want a mapping with some of the keys policy_hidden"),
        ("platform: gpu", "write rocm for an AMD GPU, cuda for an NVIDIA one"),
        ("numerics: exakt", "numerics"),
        ("evaluation: {episodes: 0}", "evaluation.episodes: got 0, want an integer, at least 1"),
        ("env: {episode_length: 0}", "env.episode_length: got 0, want an integer, at least 1"),
        ("seed: 1\nseed: 2", "run.yaml:4: seed: given twice, first in line 3; keep one"),
        ("? [a, b]\n: 3", "run.yaml:3: a key is not a word"),
        ("seed: !!int 3", "run.yaml:3: tag .*int.* is not read"),
        ("ppo: &a {}\nenv: *a", "run.yaml:3: anchors and aliases are not read"),
        ("ppo: {epochs: 3", "not YAML"),
        ("ppo:\n\tepochs: 3", "not YAML"),
        ("---\ntask: pendulum", "run.yaml:3: a second document"),
        ("ppo: " + "[" * 40 + "]" * 40, "nested deeper than 16"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(tmp_path, LEAST + line + "\n")


def test_file_and_line_stand_first(tmp_path: Path) -> None:
    text = refusal(tmp_path, LEAST + "\n# a comment\nppo:\n  epochs: x\n")
    assert text.startswith(f"{tmp_path / 'run.yaml'}:6: ppo.epochs: got ")


def test_all_problems_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = refusal(tmp_path, "total_steps: -5\nppo:\n  epochz: 1\n  clip_epsilon: 3\n", "seed=x")
    lines = text.splitlines()
    assert lines[0] == "5 problems in the config:"
    path = f"  {tmp_path / 'run.yaml'}"
    starts = [
        f"{path}: task: missing",
        f"{path}:1: total_steps: got -5",
        f"{path}:3: ppo.epochz: unknown key",
        f"{path}:4: ppo.clip_epsilon: got 3",
        "  --set: seed: got",
    ]
    assert [line[: len(start)] for line, start in zip(lines[1:], starts, strict=True)] == starts


@pytest.mark.parametrize("change", ["seed", "=3", "ppo.=3", "seed=[", "seed=&a 3", ".seed=3"])
def test_a_wrong_override_is_named(tmp_path: Path, change: str) -> None:
    assert refusal(tmp_path, LEAST, change).startswith("--set")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "config is empty"),
        (b"  \n# nothing\n", "want a mapping"),
        (b"- 1\n- 2\n", "got list, want a mapping"),
        (b"42\n", "got int, want a mapping"),
        (b"task: \xff\xfe\n", "config is not UTF-8 .byte 6 is 0xff"),
        (b"#" * 65_537, "config is larger than 65536 bytes"),
        (b"\x00\x01\x02", "not YAML"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        load_config(path)


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "near.yaml").write_text(LEAST)
    with pytest.raises(InputError, match="config file not found.*beside it lie near.yaml"):
        load_config(tmp_path / "far.yaml")
    with pytest.raises(InputError, match="config is a folder"):
        load_config(tmp_path)
    with pytest.raises(InputError, match="config cannot be read"):
        load_config("a\0b")


# Rules between keys


def test_minibatches_must_divide_and_the_nearest_are_named(tmp_path: Path) -> None:
    # 8 x 125 = 1000 samples; 1000 = 31 x 32 + 8; the divisors around 32 are 25 and 40.
    text = refusal(tmp_path, LEAST, "rollout.unroll_length=125", "ppo.minibatches=32")
    assert "got 32, which does not divide num_envs x unroll_length = 8 x 125 = 1000 samples" in text
    assert "(remainder 8); nearest that divide: 25 or 40" in text
    load(tmp_path, LEAST, "rollout.unroll_length=128", "ppo.minibatches=32")


def test_a_minibatch_of_one_names_both_ways_out(tmp_path: Path) -> None:
    sizes = ["rollout.num_envs=2", "rollout.unroll_length=3", "ppo.minibatches=6"]
    text = refusal(tmp_path, LEAST, *sizes)
    assert "a minibatch of 1 sample, whose advantages cannot be normalised" in text
    assert "nearest that divide: 3, or set ppo.normalize_advantage: false" in text
    load(tmp_path, LEAST, *sizes, "ppo.normalize_advantage=false")


def test_one_sample_in_all_names_a_way_out(tmp_path: Path) -> None:
    sizes = ["rollout.num_envs=1", "rollout.unroll_length=1", "ppo.minibatches=1"]
    assert "raise rollout.unroll_length" in refusal(tmp_path, LEAST, *sizes)


@pytest.mark.parametrize(
    ("total", "near", "least", "expected"),
    [(1000, 32, 1, [25, 40]), (7, 3, 1, [1, 7]), (7, 3, 2, [1]), (12, 4, 1, [4, 6]), (1, 1, 2, [])],
)
def test_nearest_divisors(total: int, near: int, least: int, expected: list[int]) -> None:
    assert config_rules.nearest_divisors(total, near, least) == expected


def test_an_unroll_longer_than_the_episode(tmp_path: Path) -> None:
    text = refusal(tmp_path, LEAST, "env.episode_length=100")
    assert "rollout.unroll_length: got 128, longer than env.episode_length 100" in text


def test_fewer_steps_than_one_iteration(tmp_path: Path) -> None:
    text = refusal(tmp_path, LEAST, "total_steps=1")
    assert "total_steps: got 1, less than one iteration" in text and "want at least 1024" in text


def test_a_shared_torso_has_one_list_of_layers(tmp_path: Path) -> None:
    change = "network.shared_torso=true"
    text = refusal(tmp_path, LEAST, change, "network.value_hidden=[8]")
    assert (
        "network.value_hidden: got [8] with shared_torso: true and policy_hidden [64, 64]" in text
    )
    assert load(tmp_path, LEAST, change).network.shared_torso


def test_too_many_samples_for_an_index(tmp_path: Path) -> None:
    text = refusal(tmp_path, LEAST, "rollout.num_envs=2000000000", "total_steps=999999999999")
    assert "want at most 2147483647" in text


# Bytes


def test_canonical_bytes_are_written_out() -> None:
    config = config_from_mapping({"task": "é", "total_steps": 4096, "platform": "cpu"}, "test")
    data = canonical_config(config)
    mapping = json.loads(data)
    assert data == json.dumps(mapping, sort_keys=True, separators=(",", ":")).encode()
    assert b'"task":"\\u00e9"' in data
    # 0.5 = 1 x 2^-1 and 10 = 1.25 x 2^3, and 0.25 = 4/16.
    assert mapping["ppo"]["value_cost"] == "0x1.0000000000000p-1"
    assert mapping["observations"]["clip"] == "0x1.4000000000000p+3"
    assert mapping["network"]["policy_hidden"] == [64, 64]
    assert mapping["env"]["dt"] is None


def test_canonical_bytes_come_back(tmp_path: Path) -> None:
    config = load(tmp_path, LEAST, "env.dt=0.1", "reward.scale=-0.0", "network.policy_hidden=[]")
    assert canonical_config(parse_canonical(canonical_config(config))) == canonical_config(config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "not a canonical config"),
        (lambda data: b"[]", "not a canonical config"),
        (lambda data: b"\xff", "not a canonical config"),
        (lambda data: data + b"\n", "not in canonical form"),
        (lambda data: data.replace(b'"seed":0', b'"seed":-1'), "seed: got -1"),
        (lambda data: data.replace(b'"0x1.0000000000000p-1"', b'"x"'), "not a canonical config"),
    ],
)
def test_damaged_canonical_bytes_are_refused(tmp_path: Path, change, said: str) -> None:
    data = canonical_config(load(tmp_path, LEAST))
    with pytest.raises(InputError, match=said):
        parse_canonical(change(data))


def test_program_bytes_leave_out_what_moves_no_bit(tmp_path: Path) -> None:
    base = load(tmp_path, LEAST)
    audit = ("keep_segments=all", "reference_every=2", "tolerance.reward_relative=1e-3")
    for same in ("platform=cpu", "checkpoint.every=3", *(f"audit.{each}" for each in audit)):
        other = load(tmp_path, LEAST, same)
        assert canonical_config(other) != canonical_config(base)
        assert program_config(other) == program_config(base)
    assert program_config(load(tmp_path, LEAST, "seed=1")) != program_config(base)


def test_the_reference_defines_no_half_precision(tmp_path: Path) -> None:
    half = ("numerics=native", "reward.dtype=float16")
    assert load(tmp_path, LEAST, *half).audit.reference_every == 0
    with pytest.raises(InputError, match="reference_every: got 3 with reward.dtype float16"):
        load(tmp_path, LEAST, *half, "audit.reference_every=3")


# As a whole


def test_every_key_has_a_help_line() -> None:
    found = list(options())
    assert len(found) == len({each.key for each in found}) > 35
    assert all(each.help and each.want for each in found)
    assert {"seed", "ppo.clip_epsilon", "env.dt"} <= {each.key for each in found}


def test_the_help_shows_the_default_that_holds(tmp_path: Path) -> None:
    config = load(tmp_path, LEAST)
    for each in options():
        value: object = config
        for part in each.key.split("."):
            value = getattr(value, part)
        if each.default is not dataclasses.MISSING:
            assert value == each.default, each.key


def test_importing_the_room_imports_no_jax(python) -> None:
    code = "import sys, rlkjax.config; print('jax' in sys.modules, 'numpy' in sys.modules)"
    assert python(code).stdout.strip() == "False False"


MUTANTS = list("{}[]:,&*!|>'\"%@`#?-\t\n 019.eExX\0\x07\ufeff\u2028é") + [
    "null",
    ".nan",
    "1e999",
    "- ",
    "---\n",
    "<<: ",
    "9" * 5000,
    "!!python/object ",
    "0o9",
    "true",
]


def mutate(text: str, draw: random.Random) -> str:
    """`text` after a few cuts, swaps and insertions."""
    for _ in range(draw.randint(1, 4)):
        at, to = sorted(draw.choices(range(len(text) + 1), k=2))
        match draw.randrange(4):
            case 0:
                text = text[:at] + draw.choice(MUTANTS) + text[at:]
            case 1:
                text = text[:at] + text[min(to, at + 12) :]
            case 2:
                text = text[:at] + text[at:to] + text[at:to] + text[to:]
            case _:
                text = text[:at] + draw.choice(MUTANTS) + text[at + 1 :]
    return text


@pytest.mark.parametrize("block", range(10))
def test_a_thousand_damaged_configs_load_or_are_refused_in_words(
    tmp_path: Path, block: int
) -> None:
    draw = random.Random(block)
    base = LEAST + (
        "seed: 7\nppo: {learning_rate: 3e-4, discount: 0.97, minibatches: 4}\n"
        "network:\n  policy_hidden: [32, 32]\n  activation: relu\nrollout:\n  num_envs: 16\n"
    )
    refused = 0
    for _ in range(100):
        try:
            config = load(tmp_path, mutate(base, draw))
        except InputError as error:
            assert str(error)
            refused += 1
        else:
            assert parse_canonical(canonical_config(config)) == config
    assert refused > 50


def test_a_full_file_of_brackets_is_refused_fast(tmp_path: Path) -> None:
    assert "nested" in refusal(tmp_path, "[" * config_yaml.MAX_BYTES)
