"""The train command: its output, and every kind of bad input with its exit status."""

import json
import re
import resource
import subprocess
import sys

import pytest

from rlkjax.config import canonical_config

SECONDS = 2.0  # of processor time, interpreter start and imports included


def test_the_last_line_and_the_streams(command, tmp_path):
    status, out, err = command("--run-dir", tmp_path)
    assert status == 0
    assert re.fullmatch("chain [0-9a-f]{64} bits [0-9a-f]{64} iterations 6 verified\n", out)
    assert "6 iterations of 32 steps = 192 environment steps, seed 0" in err
    assert "192 / 192" in err
    head = json.loads((tmp_path / "ledger.jsonl").read_bytes().splitlines()[-1])
    assert out.split()[3] == head["bits"]


def test_quiet_shows_no_progress(command, tmp_path):
    status, out, err = command("--run-dir", tmp_path, "--quiet")
    assert (status, out.split()[-1], err) == (0, "verified", "")
    _, _, err = command("--run-dir", tmp_path / "b", "--quiet", "--set", "autotune=true")
    assert [line[:21] for line in err.splitlines()] == ["switch autotune=true:"]


def test_print_config_is_the_resolved_config(command):
    status, out, err = command("--print-config", "--set", "ppo.learning_rate=3e-4")
    shown = json.loads(out)
    assert (status, err) == (0, "")
    assert shown["ppo"]["learning_rate"] == 3e-4
    assert shown["ppo"]["gae_lambda"] == 0.95  # a default, resolved
    assert shown["rollout"] == {"num_envs": 4, "unroll_length": 8}


def test_dry_run_says_the_plan_and_leaves_no_trace(command, tmp_path):
    status, out, err = command("--run-dir", tmp_path / "run", "--dry-run")
    assert (status, out) == (0, "dry run: nothing was computed\n")
    assert "environment cartpole: observation 4, action Discrete(n=2)" in err
    assert not (tmp_path / "run").exists()


def test_set_changes_the_run(command, tmp_path):
    first = command("--run-dir", tmp_path / "a")[1]
    other = command("--run-dir", tmp_path / "b", "--set", "checkpoint.every=1")[1]
    assert first.split()[1] != other.split()[1]  # another config, another chain
    assert first.split()[3] == other.split()[3]  # which cannot move a bit


def test_switches_are_said_aloud(command, tmp_path, monkeypatch):
    from rlkjax import launch

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "prepare", stop)
    status, _, err = command("--run-dir", tmp_path, "--set", "autotune=true")
    assert status == 130
    assert "switch autotune=true: XLA chooses kernels by timing" in err
    want = "rlkjax: broken off; there is no checkpoint yet, so --resume begins at iteration 0"
    assert err.splitlines()[-1] == want


def test_a_run_that_is_broken_off_names_its_checkpoint(command, tmp_path, monkeypatch):
    from rlkjax.report import curve

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(curve, "write", stop)
    status, out, err = command("--run-dir", tmp_path)
    assert (status, out) == (130, "")
    want = "rlkjax: broken off; the last checkpoint is of iteration 5, go on with --resume"
    assert err.splitlines()[-1] == want


def test_resume_with_another_interval_names_the_option(command, configure, tmp_path):
    stored = canonical_config(configure("audit.reference_every=2"))
    (tmp_path / "config.json").write_bytes(stored)
    err = command("--run-dir", tmp_path, "--resume", "--reference", "every=3")[2]
    assert "audit.reference_every is 2 there and 3 here" in err
    assert "leave out --reference and add --set audit.reference_every=2, or start" in err


def test_resume_with_quite_another_config_names_six_keys(command, tmp_path):
    stored = {"seed": 0, **{f"key{number}": number for number in range(9)}}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    err = command("--run-dir", tmp_path, "--resume")[2]
    assert err.count(" there and ") == 6
    assert re.search(r", and [0-9]+ more\), want the same; name the --config of that run, or", err)


def test_only_a_physics_engine_is_said_to_take_minutes(command, tmp_path):
    assert "\ncompiling\n" in command("--run-dir", tmp_path)[2]


def test_a_flag_that_is_not_pinned_is_a_warning_in_native_numerics(command, tmp_path, monkeypatch):
    from rlkjax.platform import flags

    monkeypatch.setattr(flags, "prepare", lambda *_: ("--xla_cpu_max_isa=AVX",))
    for numerics, said in (("native", True), ("exact", False)):
        words = ["--dry-run", "--quiet", "--set", f"numerics={numerics}"]
        err = command("--run-dir", tmp_path / "run", *words)[2]
        assert ("warning: XLA_FLAGS has --xla_cpu_max_isa=AVX, which is not pinned" in err) is said


def test_resume_with_another_config_names_every_key_before_compiling(command, tmp_path):
    command("--run-dir", tmp_path, "--set", "ppo.learning_rate=3e-4", "--set", "checkpoint.keep=9")
    status, out, err = command("--run-dir", tmp_path, "--resume", "--set", "seed=4")
    assert (status, out) == (2, "")
    assert err == (
        f"rlkjax: config: got one that is not the config of {tmp_path} (checkpoint.keep is 9 there "
        "and 2 here, ppo.learning_rate is 0.0003 there and 0.01 here, seed is 0 there and 4 here), "
        "want the same; leave out --set seed and add --set checkpoint.keep=9 "
        "--set ppo.learning_rate=0.0003 --set seed=0, or start a new run\n"
    )


# --- bad input -----------------------------------------------------------------------------------

BAD_KEYS = [
    ("learning_rte=1", "learning_rte"),
    ("ppo.learning_rte=1", "learning_rate"),  # nearest spelling
    ("ppo.epochs=two", "want an integer"),
    ("ppo.epochs='2'", "want an integer"),
    ("ppo.learning_rate='3e-4'", "want a finite number"),
    ("ppo.learning_rate=.nan", "want a finite number"),
    ("ppo.clip_epsilon=1.5", "below 1"),
    ("ppo.minibatches=5", r"4 x 8 = 32 samples \(remainder 2\); nearest that divide: 4 or 8"),
    ("ppo.minibatches=32", "a minibatch of 1 sample"),
    ("rollout.unroll_length=16", "longer than env.episode_length 10"),
    ("total_steps=1", "less than one iteration"),
    ("platform=tpu", "one of auto, cpu, rocm, cuda"),
]


@pytest.mark.parametrize(("change", "said"), BAD_KEYS)
def test_bad_keys_exit_with_status_2(command, tmp_path, change, said):
    status, out, err = command("--run-dir", tmp_path / "run", "--set", change)
    assert (status, out) == (2, "")
    assert re.search(said, err), err
    assert err.startswith("rlkjax: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("task=cartpol", "did you mean cartpole"),
        ("task=brax/halfchetah", "did you mean brax/halfcheetah"),
        ("env.backend=mjx", "backend of task cartpole: got 'mjx', want none"),
        ("env.dt=1000000.0", None),
    ],
)
def test_worlds_that_do_not_exist(command, tmp_path, change, said):
    status, _, err = command("--run-dir", tmp_path / "run", "--dry-run", "--set", change)
    assert status == (2 if said else 0)
    assert re.search(said or "dry", err) or not said


def test_an_unknown_task_leaves_no_folder_behind(command, tmp_path):
    status, _, _ = command("--run-dir", tmp_path / "run", "--set", "task=cartpol")
    assert status == 2
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: cartpole\ntask: pendulum\ntotal_steps: 10\n", "task: .*twice|duplicate"),
        ("- task\n", "got list, want a mapping of keys"),
        ("task: [cartpole\n", r"odd\.yaml"),
        (None, r"odd\.yaml: config file not found"),
    ],
)
def test_files_that_are_no_config(command, tmp_path, text, said):
    path = tmp_path / "odd.yaml"
    if text is not None:
        path.write_text(text)
    status, out, err = command("--config", path, "--dry-run")
    assert (status, out) == (2, "")
    assert re.search(said, err), err


def test_a_folder_that_is_not_empty(command, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    status, _, err = command("--run-dir", tmp_path)
    assert status == 2
    assert "got one that is not empty" in err and "--resume" in err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_in_the_place_of_the_folder(command, tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        status, _, err = command("--run-dir", folder)
        assert (status, err.splitlines()[-1][:8]) == (2, "rlkjax: ")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_another_process_writes(command, tmp_path):
    from rlkjax.audit.journal import lock_run

    with lock_run(tmp_path):
        status, _, err = command("--run-dir", tmp_path)
    assert status == 2
    assert "another process is writing" in err


def test_a_full_disk_exits_with_status_3_and_is_resumed(command, tmp_path, monkeypatch):
    import errno
    import os

    from rlkjax.audit import journal

    want = command("--run-dir", tmp_path / "straight")
    write, left = os.write, iter(range(25))

    def limited(descriptor, data):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(journal.os, "write", limited)
    status, out, err = command("--run-dir", tmp_path / "full")
    monkeypatch.setattr(journal.os, "write", write)
    assert (status, out) == (3, "")
    assert "got no space to write" in err.splitlines()[-1]
    again = command("--run-dir", tmp_path / "full", "--resume")
    assert again[:2] == want[:2]


def test_an_xla_flag_that_conflicts_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    status, _, err = command("--run-dir", tmp_path / "run")
    assert status == 2
    assert "--xla_cpu_enable_fast_math is 'true', but a run pins it to 'false'" in err


def test_a_variable_that_would_undo_a_setting_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    status, _, err = command("--run-dir", tmp_path / "run")
    assert status == 2
    assert "environment variable JAX_ENABLE_X64: got '1', want 0 or unset" in err


# --- in a process of its own: exit status, one line, and quickly ----------------------------------


def run_timed(small, *arguments, **environment):
    """Exit status, stderr and seconds of processor time of the command."""
    import os

    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_PLATFORMS")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-m", "rlkjax.train", "--config", small, *arguments],
        capture_output=True,
        text=True,
        env={**kept, **environment},
        timeout=120,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return ran, seconds


@pytest.mark.parametrize(
    ("arguments", "flags", "status", "said"),
    [
        (["--set", "ppo.learning_rte=1"], "", 2, "learning_rate"),
        (["--set", "task=cartpol", "--dry-run"], "", 2, "did you mean cartpole"),
        (["--set", "platform=rocm"], "", 3, "no plugin for it is installed .*jaxlib"),
        ([], "--xla_cpu_enable_fast_mth=true", 2, "xla_cpu_enable_fast_mth"),
        ([], "--xla_allow_excess_precision=true", 2, "pins it to 'false'"),
    ],
)
def test_bad_input_is_told_at_once(small, tmp_path, arguments, flags, status, said):
    more = {"XLA_FLAGS": flags} if flags else {}
    ran, seconds = run_timed(small, "--run-dir", tmp_path / "run", *arguments, **more)
    assert (ran.returncode, ran.stdout) == (status, "")
    assert re.search(said, ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr
    assert seconds < SECONDS
    assert not (tmp_path / "run").exists()


def test_no_arguments_and_help(small):
    ran = subprocess.run([sys.executable, "-m", "rlkjax.train"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--config" in ran.stderr
    ran, _ = run_timed(small, "--help")
    assert ran.returncode == 0
    for option in ("--set", "--run-dir", "--resume", "--dry-run", "--print-config"):
        assert option in ran.stdout


def test_exact_refuses_half_precision_rewards_by_key(command, tmp_path):
    status, _, err = command(
        "--run-dir", tmp_path / "run", "--set", "numerics=exact", "--set", "reward.dtype=float16"
    )
    assert status == 2
    assert "reward.dtype: got float16 with numerics: exact" in err
    assert not (tmp_path / "run").exists()


def test_a_worker_count_that_is_no_number_is_refused(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PJRT_NPROC", "abc")
    status, _, err = command("--run-dir", tmp_path / "run", "--dry-run")
    assert status == 2
    assert "PJRT_NPROC: got 'abc', want a number" in err


def test_a_path_that_is_too_long_is_bad_input(command, tmp_path):
    status, _, err = command("--run-dir", tmp_path / ("a" * 300))
    assert status == 2
    assert "too long" in err
