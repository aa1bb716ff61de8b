"""Golden streams: the schedule, one stream worked by hand, and how a difference is named."""

import json

import jax
import numpy as np
import pytest

from vimejax import codec, golden, registry
from vimejax.errors import CodecError


def small():
    """Two steps of two environments, every value told apart from the others."""
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2) + 1
    return {
        "obs": x,
        "reward": -x[..., 0],
        "terminated": np.zeros((2, 2), np.bool_),
        "start": x[:1] + 10,
    }


def changed(name, place, value):
    fields = {each: array.copy() for each, array in small().items()}
    fields[name][place] = value
    return fields


# --- the roll ------------------------------------------------------------------------------------


def test_the_schedule_of_two_choices():
    found = golden.actions(registry.bare("cartpole").spec, 32)
    assert found.dtype == np.int32 and found.shape == (32, 4)
    assert found[:4, 0].tolist() == [0, 1, 0, 1]  # k = t
    assert found[:7, 1].tolist() == [1, 1, 1, 0, 0, 0, 1]  # k = t // 3 + 1
    assert found[:, 3].tolist() == [1] * 27 + [0] * 5  # k = t // 27 + 3: 3, then 4


def test_the_schedule_of_numbers():
    found = golden.actions(registry.bare("noisy_point").spec, 3)
    assert found.dtype == np.float32 and found.shape == (3, 4, 2)
    # Environment 0, k = 0, 1, 2: (5 k mod 17 - 8) / 8, and with 3 more for the second part.
    assert found[:, 0].tolist() == [[-1.0, -0.625], [-0.375, 0.0], [0.25, 0.625]]
    everything = golden.actions(registry.bare("pendulum").spec, 320)
    assert (everything.min(), everything.max()) == (-1.0, 1.0)


def test_a_stream_worked_by_hand():
    # probe_delayed: obs counts the steps, the second step terminates with reward 1.
    env = golden.environment("probe_delayed")
    got = golden.make(env, jax.jit, 4)
    assert got["start"].shape == (1, 4, 1) and not got["start"].any()
    one = {name: value[:, 2].ravel().tolist() for name, value in got.items() if name != "start"}
    assert one == {
        "next_obs": [1.0, 2.0, 1.0, 2.0],
        "obs": [1.0, 0.0, 1.0, 0.0],
        "reward": [0.0, 1.0, 0.0, 1.0],
        "terminated": [False, True, False, True],
        "truncated": [False] * 4,
        "info/nonfinite": [0] * 4,
        "episode": [0, 1, 1, 2],
        "step": [1, 0, 1, 0],
        "action": [0, 0, 0, 0],  # k = t // 9 + 2
    }


def test_a_shorter_stream_is_a_prefix():
    env = golden.environment("probe_both")
    long, short = golden.make(env, jax.jit, 12), golden.make(env, jax.jit, 5)
    assert golden.compare(golden.prefix(long, 5), short) is None
    assert {each.tobytes() for each in long["obs"]} != {long["obs"][0].tobytes()}  # starts differ


def test_the_executor_gets_the_program_and_its_result_is_taken():
    def ones(fn):
        return lambda seed, action: {"seed": seed, "action": action + 1}

    got = golden.make(golden.environment("probe_obs"), ones, 2)
    assert got["seed"] == golden.SEED and got["action"].tolist() == [[1, 2, 1, 2], [2, 2, 1, 2]]


# --- the first difference ------------------------------------------------------------------------


def test_equal_streams():
    assert golden.compare(small(), small()) is None
    nan = changed("obs", (1, 0, 0), np.nan)
    assert golden.compare(nan, changed("obs", (1, 0, 0), np.nan)) is None


@pytest.mark.parametrize(
    ("name", "place", "value", "text"),
    [
        # The last bit of 4.0 = 0x40800000.
        (
            "obs",
            (0, 1, 1),
            np.nextafter(np.float32(4), np.float32(5)),
            "field obs, step 1, environment 1, element [1]: expected 40800000, got 40800001",
        ),
        (
            "reward",
            (1, 0),
            5.0,  # it was -5: the sign bit alone
            "field reward, step 2, environment 0, element []: expected c0a00000, got 40a00000",
        ),
        (
            "terminated",
            (1, 1),
            True,
            "field terminated, step 2, environment 1, element []: expected 00, got 01",
        ),
        (
            "start",
            (0, 1, 0),
            0.0,  # it was 13
            "field start, step 0, environment 1, element [0]: expected 41500000, got 00000000",
        ),
    ],
)
def test_a_difference_is_named(name, place, value, text):
    found = golden.compare(small(), changed(name, place, value))
    assert found.text() == text


def test_the_earliest_step_comes_first():
    later = changed("obs", (1, 0, 0), 0.0)
    later["terminated"][0, 1] = True
    assert golden.compare(small(), later)[:3] == ("terminated", 1, 1)
    later["start"][0, 0, 0] = 0.0
    assert golden.compare(small(), later)[:3] == ("start", 0, 0)


def test_signed_zeros_and_kinds_of_nan_differ():
    zero, minus = changed("obs", (0, 0, 0), 0.0), changed("obs", (0, 0, 0), -0.0)
    assert golden.compare(zero, minus)[4:] == ("00000000", "80000000")
    nan = changed("obs", (0, 0, 0), np.nan)
    nan_bits = nan["obs"].view(np.uint32)
    other = {**nan, "obs": (nan_bits | (nan_bits == 0x7FC00000)).view(np.float32)}
    assert golden.compare(nan, other)[4:] == ("7fc00000", "7fc00001")


def test_layout_comes_before_values():
    other = changed("obs", (0, 0, 0), 0.0)
    del other["terminated"]
    text = "field terminated: expected bool[2, 2], got no such field"
    assert golden.compare(small(), other).text() == text
    other = small() | {"reward": small()["reward"].astype(np.float16)}
    text = "field reward: expected float32[2, 2], got float16[2, 2]"
    assert golden.compare(small(), other).text() == text


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def spec():
    return golden.environment("cartpole").spec


@pytest.fixture
def stored(spec):
    return golden.pack(spec, small(), {"executor": "by hand", "versions": {}})


def test_write_and_read_back(tmp_path, spec, stored):
    golden.write(tmp_path, "cartpole", stored)
    again = golden.read(tmp_path, "cartpole")
    assert again == stored and golden.faults(again, spec) == []
    assert golden.compare(codec.decode(again.data), small()) is None
    assert golden.read(tmp_path, "pendulum") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("format", "vimejax-golden/2"), ("seed", 21), ("steps", 31), ("num_envs", 5)]
    + [("episode_length", 11), ("actions", "at random"), ("task", {}), ("sha256", "0" * 64)],
)
def test_another_recipe_is_named(spec, stored, key, value):
    other = golden.Golden(stored.data, {**stored.provenance, key: value})
    (fault,) = golden.faults(other, spec)
    assert fault.startswith(f"{key} of the golden file: stored {value!r}, here ")


def test_a_changed_byte_breaks_the_digest(spec, stored):
    data = bytearray(stored.data)
    data[-1] ^= 1
    (fault,) = golden.faults(golden.Golden(bytes(data), stored.provenance), spec)
    assert fault.startswith(f"sha256 of the golden file: stored '{stored.provenance['sha256']}'")


@pytest.mark.parametrize("suffix", ["bin", "json"])
def test_half_of_a_pair_is_refused(tmp_path, stored, suffix):
    golden.write(tmp_path, "cartpole", stored)
    (tmp_path / f"cartpole.{suffix}").unlink()
    with pytest.raises(CodecError, match=rf"got no cartpole\.{suffix}, want it beside its twin"):
        golden.read(tmp_path, "cartpole")


@pytest.mark.parametrize(
    "text", [b"", b"[]\n", b"\xff", b'{"seed": 20}\n', b'{"seed":20,"seed":20}\n', b"[" * 100_000]
)
def test_provenance_that_is_not_canonical(tmp_path, stored, text):
    golden.write(tmp_path, "cartpole", stored)
    (tmp_path / "cartpole.json").write_bytes(text)
    with pytest.raises(CodecError, match=r"cartpole\.json: got bytes that are no canonical JSON"):
        golden.read(tmp_path, "cartpole")


@pytest.mark.parametrize("task", golden.tasks())
def test_every_native_task_has_a_file_of_its_recipe(task):
    found = golden.read(golden.FOLDER, task)
    assert golden.faults(found, golden.environment(task).spec) == []
    fields = codec.decode(found.data)
    assert {value.shape[:2] for name, value in fields.items() if name != "start"} == {(32, 4)}
    assert fields["episode"][-1].min() >= 3  # every environment was restarted
    assert len(found.data) < 16_384


def test_files_are_those_of_the_tasks():
    names = {f"{task}.{suffix}" for task in golden.tasks() for suffix in ("bin", "json")}
    assert {path.name for path in golden.FOLDER.iterdir()} == names
    for path in golden.FOLDER.glob("*.json"):
        assert json.loads(path.read_bytes())["executor"] == "rlkjax.exact.reference"
