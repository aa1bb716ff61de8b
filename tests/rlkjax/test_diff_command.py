"""The command: verdict line, exit status, and pairs of real runs with their true causes."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

from rlkjax import cli, diff, loop

KEEP = "audit.keep_segments=all"


def finish(run, dispatch_fn=loop.dispatch):
    for _ in loop.train(run, dispatch_fn=dispatch_fn):
        pass
    run.opened.journal.close()


@pytest.fixture
def plain(prepare, tmp_path):
    """A finished small run."""
    finish(prepare(tmp_path / "a", KEEP))
    return tmp_path / "a"


@pytest.fixture
def compare(capsys):
    """compare(a, b, *options) -> (status, out, err)."""

    def run(*arguments):
        capsys.readouterr()
        status = cli.run(diff.main, [str(each) for each in arguments])
        return status, *capsys.readouterr()

    return run


def test_two_runs_of_one_config_are_equal(prepare, plain, compare, tmp_path):
    finish(prepare(tmp_path / "b", KEEP))
    status, out, err = compare(plain, tmp_path / "b")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == (
        "EQUAL: all numeric records of both runs are the same, 6 iterations"
    )


def test_an_environment_that_states_other_bytes(prepare, plain, compare, tmp_path):
    def faulty(run, train, world, iteration):
        work = loop.dispatch(run, train, world, iteration)
        if iteration != 3:
            return work
        reward = work.segment.reward
        reward = reward.at[5, 2].set(jnp.nextafter(reward[5, 2], jnp.float32(2)))
        return work._replace(segment=work.segment._replace(reward=reward))

    finish(prepare(tmp_path / "b", KEEP), faulty)
    status, out, _ = compare(plain, tmp_path / "b")
    lines = out.splitlines()
    assert status == 1
    assert lines[0] == "DIFFERENT from iteration 3, stage rollout, buffer reward"
    assert "  where     buffer reward, step 5, environment 2, 1 of its 32 elements differ" in lines
    assert "  bits A    3f800000 = 1.0" in lines
    assert "  bits B    3f800001 = 1.0000001, 1 ulp apart (float32)" in lines
    assert any(line.startswith("  cause     environment bytes: no setting") for line in lines)
    assert any(line.startswith("  advice    run python -m rlkjax.golden") for line in lines)


def test_another_learning_rate_as_json(prepare, plain, compare, tmp_path):
    finish(prepare(tmp_path / "b", KEEP, "ppo.learning_rate=2e-2"))
    status, out, err = compare(plain, tmp_path / "b", "--json")
    shown = json.loads(out)
    assert (status, err, shown["format"]) == (1, "", "rlkjax-diff-1")
    assert (shown["iteration"], shown["stage"]) == (0, "update")
    assert shown["cause"]["class"] == "configuration" and shown["cause"]["certain"] is True
    assert shown["differing"]["config"] == [
        {
            "key": "ppo.learning_rate",
            "a": "0.01",
            "b": "0.02",
            "effect": "stage update, and what follows from it",
        }
    ]


def test_wrong_use(plain, compare, tmp_path):
    status, out, err = compare(plain, tmp_path / "nothing")
    assert (status, out) == (2, "")
    assert err.startswith("rlkjax: second run: got ") and err.count("\n") == 1
    assert compare(plain, plain)[0] == 2
    (plain / "ledger.jsonl").write_bytes((plain / "ledger.jsonl").read_bytes()[:200] + b"\n")
    status, _, err = compare(plain, plain / ".." / "a")
    assert status == 2 and "the folder of the first run again" in err


def test_text_from_files_is_printed_without_control_characters(plain, compare, tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("config.json", "fingerprint.json"):
        (tmp_path / "b" / name).write_bytes((plain / name).read_bytes())
    line = (plain / "ledger.jsonl").read_bytes().split(b"\n")[0]
    line = line.replace(b"rlkjax-ledger/1", b"\\u001b[2J\\u0007")
    (tmp_path / "b" / "ledger.jsonl").write_bytes(line + b"\n")
    status, _, err = compare(plain, tmp_path / "b")
    assert status == 2 and "\\x1b[2J\\x07" in err and "\x1b" not in err


def test_files_alone_are_compared_without_jax(python):
    code = "import sys, rlkjax.diff; sys.exit('jax' in sys.modules)"
    assert python(code).returncode == 0


def test_help_names_the_exit_statuses(capsys):
    with pytest.raises(SystemExit) as stopped:
        diff.main(["--help"])
    assert stopped.value.code == 0
    assert "0 equal bits; 1 different" in " ".join(capsys.readouterr().out.split())


def train(folder, *settings, **variables):
    """A native run in its own process: 256 environments, so that XLA splits its products."""
    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_PLATFORMS")}
    size = (
        "numerics=native",
        "rollout.num_envs=256",
        "rollout.unroll_length=16",
        "total_steps=8192",
    )
    words = [word for setting in (*size, KEEP, *settings) for word in ("--set", setting)]
    subprocess.run(
        [sys.executable, "-m", "rlkjax.train", "--config", "configs/quickstart.yaml"]
        + ["--run-dir", str(folder), "--quiet", *words],
        env={**kept, **variables},
        check=True,
        capture_output=True,
    )
    return folder


@pytest.mark.slow
def test_one_and_two_threads_lead_to_a_sum_on_a_line(tmp_path, compare):
    a, b = (train(tmp_path / f"t{count}", f"threads={count}") for count in (1, 2))
    status, out, _ = compare(a, b, "--replay", "--json")
    shown = json.loads(out)
    assert status == 1 and shown["cause"]["class"] == "reduction order"
    assert shown["cause"]["certain"] and shown["a_bits"] != shown["b_bits"]
    assert shown["operation"]["primitive"] in ("dot_general", "reduce_sum")
    assert shown["operation"]["class"] == "reduction order"
    assert shown["operation"]["line"].startswith("rlkjax/")
    assert [note.split(":")[1].strip() for note in shown["notes"][:2]] == [
        "iteration 0 gives what it recorded"
    ] * 2


@pytest.mark.slow
def test_another_instruction_set_is_a_flag_that_contracts(tmp_path, compare):
    a = train(tmp_path / "fma", "threads=1", XLA_FLAGS="--xla_cpu_max_isa=AVX2")
    b = train(tmp_path / "avx", "threads=1", XLA_FLAGS="--xla_cpu_max_isa=AVX")
    status, out, _ = compare(a, b, "--replay", "--json")
    shown = json.loads(out)
    assert status == 1 and shown["cause"]["class"] == "flags" and shown["cause"]["certain"]
    assert [entry["key"] for entry in shown["differing"]["flags"]] == ["xla_cpu_max_isa"]
    # AVX has no fused multiply-add: the start states are a product and a sum.
    assert shown["operation"]["primitive"] == "add"
    assert shown["operation"]["class"] == "contraction"
    assert shown["operation"]["line"].startswith("vimejax/tasks/cartpole.py:")
    assert "(make.<locals>.reset)" in shown["operation"]["line"]
