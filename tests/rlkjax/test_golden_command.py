"""Golden streams held against the code: equal by both executors; what is changed is found."""

import json
import shutil

import pytest

from rlkjax import cli, golden_streams, launch
from rlkjax import golden as golden_command
from rlkjax.errors import ConsistencyError, InputError
from vimejax import golden
from vimejax.tasks import cartpole, probes

FAST = ("noisy_point", "probe_both", "sparse_grid")
SLOW = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    """A copy of the stored streams, to be damaged."""
    return shutil.copytree(golden.FOLDER, tmp_path / "golden")


@pytest.fixture
def check(folder):
    """Faults and notes of a task in that copy, by the reference."""
    return lambda task: golden_streams.check(task, folder, ("reference",))


@pytest.mark.parametrize("task", golden.tasks())
def test_the_reference_gives_the_stored_bytes(task):
    assert golden_streams.check(task, golden.FOLDER, ("reference",)).faults == ()


@pytest.mark.parametrize("task", golden.tasks())
def test_no_stored_program_is_stale(task):
    origin = golden.read(golden.FOLDER, task).provenance
    if origin["versions"]["jax"] != golden_streams.versions()["jax"]:
        pytest.skip("another version of jax traces another program")
    assert golden_streams.program_digest(golden.environment(task)) == origin["program"]


@pytest.mark.parametrize(
    "task", [pytest.param(each, marks=() if each in FAST else SLOW) for each in golden.tasks()]
)
def test_the_compiled_program_gives_the_stored_bytes(task):
    assert golden_streams.check(task, golden.FOLDER, ("exact",)).faults == ()


def edit(folder, task, **changes):
    path = folder / f"{task}.json"
    text = json.dumps(
        json.loads(path.read_bytes()) | changes, sort_keys=True, separators=(",", ":")
    )
    path.write_text(text + "\n")


def made_here(folder, task):
    """Lets the provenance say that this version of JAX made the stream."""
    digest = golden_streams.program_digest(golden.environment(task))
    edit(folder, task, versions=golden_streams.versions(), program=digest)


# --- what is changed is found --------------------------------------------------------------------


def test_one_unit_in_the_last_place_of_a_constant(check, folder, monkeypatch):
    made_here(folder, "cartpole")
    monkeypatch.setattr(cartpole, "GRAVITY", 9.8 + 2**-20)  # 9.8 has 20 bits after the point
    found = check("cartpole")
    assert len(found.faults) == 1
    # Near the upright pole the sine hides the last bit of gravity from the first seven steps.
    place = "reference: field next_obs, step 8, environment 0, element [3]: expected 3d507558, got"
    assert found.faults[0].startswith(place)
    assert found.notes == ("program: not the stored one, though of the same version of jax",)


def test_another_time_step_is_another_recipe(check, monkeypatch):
    monkeypatch.setitem(
        golden.registry.PHYSICS, "cartpole", lambda **_: cartpole.make(dt=0.02, substeps=2)
    )
    faults = check("cartpole").faults
    assert faults[0].startswith("task of the golden file: stored {") and len(faults) == 2


def test_a_rewritten_program_with_equal_bytes_is_a_note(check, folder, monkeypatch):
    made_here(folder, "probe_obs")

    def timestep(obs, reward=0.0, terminated=False):
        return made(obs * 1.0, reward, terminated)

    made = probes.timestep
    monkeypatch.setattr(probes, "timestep", timestep)
    found = check("probe_obs")
    assert found.faults == ()
    assert found.notes == ("program: not the stored one, though of the same version of jax",)


def damage(folder, task, place):
    path = folder / f"{task}.bin"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_is_named(check, folder):
    # truncated is the last field, one byte an element: 128 of them, the last of step 32.
    damage(folder, "cartpole", -1)
    digest, place = check("cartpole").faults
    assert digest.startswith("sha256 of the golden file: stored 'f071498f8499262c")
    assert place == (
        "reference: field truncated, step 32, environment 3, element []: expected 01, got 00"
    )


def test_a_flipped_bit_in_a_header(check, folder):
    damage(folder, "cartpole", 20)
    (fault,) = check("cartpole").faults
    assert fault.startswith("header: got ")


def test_a_missing_file_is_a_fault(check, folder):
    for suffix in ("bin", "json"):
        (folder / f"pendulum.{suffix}").unlink()
    assert check("pendulum").faults == ("got no file pendulum.bin; make it",)


def test_another_format_is_not_read_on(check, folder):
    edit(folder, "probe_obs", format="vimejax-golden/2")
    assert check("probe_obs").faults == (
        "format of the golden file: stored 'vimejax-golden/2', here 'vimejax-golden/1', which is "
        "all that is read here",
    )


def test_other_versions_are_said(check, folder):
    edit(folder, "probe_obs", versions=golden_streams.versions() | {"jax": "0.0.9"}, program="00")
    found = check("probe_obs")
    assert found.faults == ()
    # Another version of jax traces another program; the digest of one says nothing of the other.
    assert found.notes == (f"jax: stored 0.0.9, here {golden_streams.versions()['jax']}",)


# --- the start of a run --------------------------------------------------------------------------


@pytest.fixture
def afresh(monkeypatch):
    """A process checks a task once; here, every time."""
    again = golden_streams.check_start.__wrapped__
    monkeypatch.setattr(golden_streams, "check_start", again)
    return again


def test_a_good_start(afresh):
    assert afresh("noisy_point") is None


def test_a_world_without_a_file_is_said(afresh, folder):
    assert afresh("brax/ant") == (
        "golden stream: none is stored for brax/ant, so the start of the run is unchecked"
    )


def test_the_start_reads_the_whole_file(afresh, folder):
    damage(folder, "probe_obs", -1)  # step 32, beyond the prefix
    with pytest.raises(ConsistencyError, match="of probe_obs: sha256 of the golden file: stored"):
        afresh("probe_obs", folder)
    damage(folder, "probe_obs", 20)
    with pytest.raises(ConsistencyError, match="golden stream of probe_obs: header: got"):
        afresh("probe_obs", folder)


@pytest.mark.parametrize("numerics", ["native", "exact"])
def test_a_run_on_changed_physics_halts(command, afresh, monkeypatch, tmp_path, numerics):
    monkeypatch.setattr(cartpole, "GRAVITY", 9.8 + 2**-20)
    run = tmp_path / "run"
    status, out, err = command("--run-dir", run, "--set", f"numerics={numerics}")
    assert (status, out) == (1, "")
    assert "rlkjax: golden stream of cartpole: field next_obs, step 8, environment 0" in err
    assert "see python -m rlkjax.golden check cartpole" in err
    assert not (run / "ledger.jsonl").exists() or (run / "ledger.jsonl").read_bytes() == b""


def test_a_run_says_what_it_could_not_check(command, monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(golden_streams, "check_start", lambda task: f"{task} is unchecked")
    monkeypatch.setattr(launch, "compile_stages", stop)
    status, _, err = command("--run-dir", tmp_path / "run")
    assert status == 130 and "\ncartpole is unchecked\n" in err


# --- the command ---------------------------------------------------------------------------------


def run(*arguments):
    return cli.run(golden_command.main, list(map(str, arguments)))


def test_check_prints_a_line_a_task(folder, capsys):
    made_here(folder, "probe_constant")
    edit(folder, "probe_action", versions=golden_streams.versions() | {"jax": "0.0.9"})
    assert run("check", "probe_constant", "probe_action", "--folder", folder) == 0
    out, err = capsys.readouterr()
    assert out == "probe_constant: equal\nprobe_action: equal\n"
    here = golden_streams.versions()["jax"]
    assert err == f"probe_action: jax: stored 0.0.9, here {here}; no byte depends on it\n"


def test_check_of_a_damaged_file_exits_with_1(folder, capsys):
    damage(folder, "probe_obs", -1)
    assert run("check", "probe_obs", "probe_both", "--folder", folder) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("probe_obs: sha256 of the golden file: stored 'e46b98ea81954ad8")
    assert lines[1].startswith("probe_obs: reference: field truncated, step 32, environment 3")
    assert lines[2].startswith("probe_obs: exact: field truncated, step 32, environment 3")
    assert lines[3:] == ["probe_both: equal"]


def test_make_gives_the_stored_bytes(tmp_path, capsys):
    assert run("make", "probe_both", "--folder", tmp_path) == 0
    assert capsys.readouterr().out.startswith("probe_both 6c3b233f36911a21")
    want = (golden.FOLDER / "probe_both.bin").read_bytes()
    assert (tmp_path / "probe_both.bin").read_bytes() == want
    assert json.loads((tmp_path / "probe_both.json").read_bytes())["seed"] == golden.SEED


def test_make_stores_nothing_that_the_compiled_program_contradicts(tmp_path, monkeypatch):
    def other(fn):
        return lambda seed, action: golden_streams.reference(fn)(seed + 1, action)

    monkeypatch.setattr(golden_streams, "_compiled", other)
    with pytest.raises(ConsistencyError, match="differs from the reference: field .* nothing was"):
        golden_streams.make("probe_obs", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_wrong_use(tmp_path, capsys):
    assert run("check", "brax/ant") == 2
    assert "TASK: got 'brax/ant', want one of cartpole, mountain" in capsys.readouterr().err
    assert run("check", "--folder", tmp_path / "none") == 2
    assert "want an existing folder" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run("chek")
    assert "usage: python -m rlkjax.golden" in capsys.readouterr().err
    with pytest.raises(InputError, match="TASK: got 'cartpol'"):
        golden_streams.make("cartpol", tmp_path)
