"""Checkpoints: complete or absent, equal bytes for equal states, and every damage named."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlkjax import atomic, checkpoint
from rlkjax.audit import merkle
from rlkjax.errors import ConsistencyError, InputError, MachineError

CONFIG = "c0" * 32
META = {"config": CONFIG, "count": 5, "head": "aa" * 32, "bits": "bb" * 32, "steps": 640}


def tensors():
    return {
        "train/policy/w": np.array([[0.5, -0.0], [np.nan, 1.5]], np.float32),
        "train/optimizer/mu": np.array([1e-45, 3.0], np.float32),
        "train/obs_stats/count": np.array(2**32 - 1, np.uint32),
        "train/half": np.array([6e-8, -2.0], np.float16),
        "world/state/steps": np.array([-1, 2**31 - 1], np.int32),
        "world/state/ended": np.array([True, False, True]),
        "world/keys": np.arange(8, dtype=np.uint32).reshape(4, 2),
        "world/empty": np.zeros((0, 3), np.float32),
        "world/bytes": np.array([255], np.uint8),
    }


EXPECTED = {name: (array.dtype, array.shape) for name, array in tensors().items()}


def save(folder, iteration=10, **changes):
    return checkpoint.save(folder, iteration, tensors(), {**META, **changes})


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def test_every_bit_comes_back(tmp_path):
    save(tmp_path)
    loaded, meta = checkpoint.load(tmp_path, 10, EXPECTED, config=CONFIG)
    assert meta == META
    assert sorted(loaded) == sorted(EXPECTED)
    assert merkle.tensor_leaves(loaded, 0) == merkle.tensor_leaves(tensors(), 0)


def test_the_layout_and_the_digest_of_the_manifest(tmp_path):
    digest = save(tmp_path)
    assert sorted(files(tmp_path)) == [
        "checkpoints/00000010/manifest.json",
        "checkpoints/00000010/state.safetensors",
    ]
    manifest = json.loads((tmp_path / "checkpoints/00000010/manifest.json").read_bytes())
    assert manifest["format"] == "rlkjax-checkpoint/1"
    assert manifest["chain"] == {"bits": "bb" * 32, "count": 5, "head": "aa" * 32}
    assert manifest["meta"] == {"steps": 640}
    assert checkpoint.load(tmp_path, 10, EXPECTED, manifest=digest)[1] == META
    with pytest.raises(ConsistencyError, match=f"want {'0' * 64} as the ledger says"):
        checkpoint.load(tmp_path, 10, EXPECTED, manifest="0" * 64)


def test_equal_states_give_equal_bytes_in_any_order(tmp_path):
    backwards = dict(reversed(tensors().items()))
    backwards["world/keys"] = np.asfortranarray(backwards["world/keys"])
    backwards["train/policy/w"] = backwards["train/policy/w"].astype(">f4")
    one = checkpoint.save(tmp_path / "a", 3, tensors(), META)
    two = checkpoint.save(tmp_path / "b", 3, backwards, dict(reversed(META.items())))
    assert one == two
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_each_leaf_group_dropped_in_turn_fails_by_name(tmp_path):
    for number, name in enumerate(EXPECTED):
        less = {key: array for key, array in tensors().items() if key != name}
        checkpoint.save(tmp_path, number, less, META)
        with pytest.raises(ConsistencyError, match=f"tensor '{name}' is missing"):
            checkpoint.load(tmp_path, number, EXPECTED)


def test_each_extra_reshaped_and_recast_tensor_fails_by_name(tmp_path):
    save(tmp_path)
    for name, (dtype, shape) in EXPECTED.items():
        less = {key: value for key, value in EXPECTED.items() if key != name}
        with pytest.raises(ConsistencyError, match=f"tensor '{name}' is extra"):
            checkpoint.load(tmp_path, 10, less)
        with pytest.raises(ConsistencyError, match=f"tensor '{name}' has shape"):
            checkpoint.load(tmp_path, 10, {**EXPECTED, name: (dtype, (*shape, 7))})
        other = "int32" if dtype == "float32" else "float32"
        with pytest.raises(ConsistencyError, match=f"tensor '{name}' has dtype .*, want {other}"):
            checkpoint.load(tmp_path, 10, {**EXPECTED, name: (other, shape)})


def test_a_flipped_bit_in_each_tensor_is_named(tmp_path):
    save(tmp_path)
    path = tmp_path / "checkpoints/00000010/state.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if begin == end:
            continue
        spoiled = bytearray(data)
        spoiled[start + begin] ^= 1
        path.write_bytes(spoiled)
        with pytest.raises(ConsistencyError, match=f"tensor '{name}' has sha256"):
            checkpoint.load(tmp_path, 10, EXPECTED)


@pytest.mark.parametrize("file", ["manifest.json", "state.safetensors"])
def test_any_flipped_byte_of_a_file_is_refused(tmp_path, file):
    digest = save(tmp_path)
    path = tmp_path / "checkpoints/00000010" / file
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises((ConsistencyError, InputError), match=r"manifest|state\.safetensors"):
            checkpoint.load(tmp_path, 10, EXPECTED, config=CONFIG, manifest=digest)


@pytest.mark.parametrize("file", ["manifest.json", "state.safetensors"])
def test_missing_and_empty_files_are_named(tmp_path, file):
    save(tmp_path)
    path = tmp_path / "checkpoints/00000010" / file
    path.write_bytes(b"")
    with pytest.raises(ConsistencyError, match=file.replace(".", r"\.")):
        checkpoint.load(tmp_path, 10, EXPECTED)
    path.unlink()
    with pytest.raises(ConsistencyError, match=f"{file}: got no such file"):
        checkpoint.load(tmp_path, 10, EXPECTED)


def test_an_extra_file_is_named(tmp_path):
    save(tmp_path)
    (tmp_path / "checkpoints/00000010/notes.txt").write_text("x")
    with pytest.raises(ConsistencyError, match=r"file 'notes\.txt' is extra"):
        checkpoint.load(tmp_path, 10, EXPECTED)


def test_a_renamed_checkpoint_is_refused(tmp_path):
    save(tmp_path)
    os.rename(tmp_path / "checkpoints/00000010", tmp_path / "checkpoints/00000011")
    with pytest.raises(ConsistencyError, match="iteration is 10, want 11"):
        checkpoint.load(tmp_path, 11, EXPECTED)


def test_a_checkpoint_of_another_config_is_wrong_use(tmp_path):
    save(tmp_path)
    with pytest.raises(InputError, match=f"got the config {CONFIG}, want {'d' * 64}"):
        checkpoint.load(tmp_path, 10, EXPECTED, config="d" * 64)


def test_no_such_checkpoint_lists_the_others(tmp_path):
    save(tmp_path)
    with pytest.raises(InputError, match=r"got iteration 7, want one of \[10\]"):
        checkpoint.load(tmp_path, 7, EXPECTED)


def test_the_loader_hands_out_fresh_buffers(tmp_path):
    save(tmp_path)
    want = merkle.tensor_leaves(tensors(), 0)
    first, _ = checkpoint.load(tmp_path, 10, EXPECTED)
    for _ in range(200):
        loaded, _ = checkpoint.load(tmp_path, 10, EXPECTED)
        assert merkle.tensor_leaves(loaded, 0) == want
        for array in loaded.values():
            assert array.flags.owndata and array.flags.writeable
            array.fill(1)
    assert merkle.tensor_leaves(first, 0) == want


def test_saved_bytes_do_not_follow_the_arrays(tmp_path):
    mine = tensors()
    checkpoint.save(tmp_path, 10, mine, META)
    for array in mine.values():
        array.fill(1)
    loaded, _ = checkpoint.load(tmp_path, 10, EXPECTED)
    assert merkle.tensor_leaves(loaded, 0) == merkle.tensor_leaves(tensors(), 0)


def test_an_equal_checkpoint_is_left_as_it_is(tmp_path):
    digest = save(tmp_path)
    path = tmp_path / "checkpoints/00000010"
    before = path.stat().st_ino, (path / "manifest.json").stat().st_mtime_ns
    assert save(tmp_path) == digest
    assert (path.stat().st_ino, (path / "manifest.json").stat().st_mtime_ns) == before


def test_another_checkpoint_of_the_same_iteration_is_not_overwritten(tmp_path):
    save(tmp_path)
    before = files(tmp_path)
    with pytest.raises(ConsistencyError, match=r"manifest\.json: got a file of other bytes"):
        save(tmp_path, steps=641)
    assert files(tmp_path) == before


@pytest.mark.parametrize("kept", [(), ("manifest.json",), ("manifest.json", "state.safetensors")])
def test_a_kill_before_the_rename_leaves_nothing_that_counts(tmp_path, kept):
    save(tmp_path, iteration=9)
    part = tmp_path / "checkpoints/00000010.part"
    part.mkdir()
    for name in kept:
        (part / name).write_bytes(b"half")
    assert checkpoint.latest(tmp_path) == 9
    save(tmp_path)
    assert checkpoint.available(tmp_path) == [9, 10]
    assert not part.exists()
    assert checkpoint.load(tmp_path, 10, EXPECTED)[1] == META


def test_available_ignores_what_is_no_checkpoint(tmp_path):
    assert checkpoint.available(tmp_path) == []
    assert checkpoint.latest(tmp_path) is None
    save(tmp_path, iteration=123456789)
    save(tmp_path, iteration=0)
    for name in ("notes", "00000005.part", "5", "000000007"):
        (tmp_path / "checkpoints" / name).mkdir()
    assert checkpoint.available(tmp_path) == [0, 123456789]
    assert checkpoint.latest(tmp_path) == 123456789


def test_prune_keeps_the_newest_and_clears_leftovers(tmp_path):
    for iteration in (1, 2, 3, 4):
        save(tmp_path, iteration=iteration)
    (tmp_path / "checkpoints/00000009.part").mkdir()
    assert checkpoint.prune(tmp_path, 2) == [1, 2]
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["00000003", "00000004"]
    assert checkpoint.prune(tmp_path, 2) == []
    with pytest.raises(InputError, match="keep: got 0, want 1 or more"):
        checkpoint.prune(tmp_path, 0)


def test_discard_removes_what_no_record_names(tmp_path):
    for iteration in (1, 2, 3):
        save(tmp_path, iteration=iteration)
    assert checkpoint.discard(tmp_path, {1, 2}) == [3]
    assert checkpoint.available(tmp_path) == [1, 2]


@pytest.mark.parametrize("failing", ["open", "fsync", "rename"])
def test_a_full_disk_leaves_the_older_checkpoint_and_no_trace(tmp_path, monkeypatch, failing):
    save(tmp_path, iteration=9)
    before = files(tmp_path)

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = (atomic, "open") if failing == "open" else (atomic.os, failing)
    monkeypatch.setattr(*place, refuse, raising=False)
    with pytest.raises(MachineError, match="00000010: got no space to write"):
        save(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == before
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["00000009"]


def test_a_run_folder_that_cannot_hold_checkpoints(tmp_path):
    (tmp_path / "checkpoints").write_text("a file in the way")
    with pytest.raises(InputError, match="00000010: got no folder .*checkpoints, want one"):
        save(tmp_path)


def test_foreign_dtypes_and_incomplete_meta_are_refused(tmp_path):
    with pytest.raises(InputError, match="field 'x': got dtype float64"):
        checkpoint.save(tmp_path, 1, {"x": np.zeros(2)}, META)
    for key in ("config", "count", "head", "bits"):
        less = {name: value for name, value in META.items() if name != key}
        with pytest.raises(InputError, match=f"meta.'{key}'.: got None"):
            checkpoint.save(tmp_path, 1, tensors(), less)
    assert not (tmp_path / "checkpoints").exists()


def test_write_file_replaces_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    atomic.write_file(path, b"old")

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", refuse)
    with pytest.raises(MachineError, match=r"config\.json: got no space"):
        atomic.write_file(path, b"new")
    monkeypatch.undo()
    assert files(tmp_path) == {"config.json": b"old"}
    atomic.write_file(path, b"new")
    assert files(tmp_path) == {"config.json": b"new"}


def test_foreign_spellings_of_a_state_file_are_refused(tmp_path):
    save(tmp_path)
    path = tmp_path / "checkpoints/00000010/state.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    padded = (size + 8).to_bytes(8, "little") + data[8 : 8 + size] + b" " * 8 + data[8 + size :]
    path.write_bytes(padded)
    with pytest.raises(ConsistencyError, match="another spelling of its tensors"):
        checkpoint.load(tmp_path, 10, EXPECTED)
    shutil.rmtree(tmp_path / "checkpoints")
