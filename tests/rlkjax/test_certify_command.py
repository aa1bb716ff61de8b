"""The certificate of a run: what its bits can depend on, and its place in the first record."""

import hashlib
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from rlkjax import certificates, certify, cli, launch
from rlkjax.certificates import FUSION, LIBRARY, ORDER
from rlkjax.learner import make_stages
from rlkjax.learner_arguments import stage_arguments
from rlkjax.programs import Programs

STAGES = ["init", "rollout", "rescore", "advantages", "update", "evaluate"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(small, capsys):
    """The command on the small config: run("--json") -> stdout."""

    def command(*arguments):
        line = ["--config", str(small), *arguments]
        assert cli.run(certify.main, line) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return command


@pytest.fixture
def shown(run):
    """What the command prints as JSON for some changed keys, without lowered programs."""

    def build(*overrides):
        changes = [word for each in overrides for word in ("--set", each)]
        return json.loads(run("--json", *changes, "--platforms"))

    return build


def line_of(file, text):
    """FILE:LINE of a text that stands in one line of a source file."""
    lines = (ROOT / file).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{file}:{number} "


def test_an_exact_run_depends_on_nothing(run):
    lines = run("--set", "numerics=exact", "--platforms").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("stage ")] == STAGES
    assert lines.count("  the bits can depend on: nothing but the inputs") == len(STAGES)
    assert any(line.startswith("  exact by definition: add ") for line in lines)
    assert not any("refused" in line for line in lines)
    word, digest, *rest = lines[-1].split()
    assert (word, len(digest), rest) == ("certificate", 64, ["numerics", "exact"])


def test_what_holds_on_a_gpu_is_said_with_its_condition(run):
    (said,) = [line for line in run("--set", "numerics=exact").splitlines() if "gpu" in line]
    assert said.startswith("on cuda and rocm all this holds under --xla_gpu_ftz=true")
    assert "gpu" not in run("--set", "numerics=exact", "--platforms", "cpu")


def test_a_native_run_lists_the_user_s_lines(run, shown):
    found = shown("numerics=native")
    assert list(found["stages"]) == sorted(STAGES)
    rollout = found["stages"]["rollout"]["depends_on"]
    places = {(each["cause"], name): [] for each in rollout for name in each["primitives"]}
    for each in rollout:
        for name in each["primitives"]:
            places[each["cause"], name].append(each["line"])
    gravity = line_of("vimejax/tasks/cartpole.py", "GRAVITY * sin - cos * temp")
    assert gravity + "(accelerations)" in places[FUSION, "mul"]
    sines = line_of("vimejax/tasks/cartpole.py", "sin, cos = jnp.sin(")
    assert sines + "(accelerations)" in places[LIBRARY, "sin"]
    assert any("flax/linen/linear.py" in line for line in places[ORDER, "dot_general"])
    assert not any(line.startswith("/") for lines in places.values() for line in lines)
    text = run("--platforms").splitlines()
    assert f"    {ORDER}" in text and "  the bits can depend on: nothing but the inputs" not in text
    assert any(line.startswith(f"      {gravity}(accelerations): mul, sub") for line in text)


def test_the_digest_follows_the_program(shown):
    plain, same, other = (
        shown("numerics=exact", *more)
        for more in ((), ("checkpoint.every=1",), ("ppo.clip_epsilon=0.25",))
    )
    assert plain == same
    assert plain["certificate"] != other["certificate"]
    changed = {
        name for name in STAGES if plain["stages"][name]["jaxpr"] != other["stages"][name]["jaxpr"]
    }
    assert changed == {"update"}


def test_the_digest_restated(shown):
    found = shown("numerics=exact")
    stages = ",".join(f'"{name}":"{found["stages"][name]["jaxpr"]}"' for name in sorted(STAGES))
    text = f'{{"format":"rlkjax-certificate/1","stages":{{{stages}}}}}'
    assert hashlib.sha256(text.encode()).hexdigest() == found["certificate"]


def test_programs_are_lowered_for_absent_platforms(run):
    digests = {}
    for numerics in ("native", "exact"):
        change = f"numerics={numerics}"
        found = json.loads(run("--json", "--set", change, "--platforms", "rocm"))
        for name in STAGES:
            ((platform, digest),) = found["stages"][name]["stablehlo"].items()
            assert platform == "rocm" and len(digest) == 64
            digests[numerics, name] = digest
    assert len(set(digests.values())) == 2 * len(STAGES)


def test_what_plain_xla_rounds():
    def mean(x, n):
        return jnp.sum(jnp.maximum(x, 0.0)) / 3.0, n * 2 + 1

    found = certificates.rounded_by_xla(mean, (jnp.ones(5), jnp.int32(1)))
    here = "test_certify_command.py"
    assert [(each.cause.split(":")[0], each.primitives) for each in found] == [
        ("division turned into a product with 1 / x", ("div",)),
        ("order of the sum", ("reduce_sum",)),
    ]
    assert all(here in each.line and each.line.endswith("mean)") for each in found)


@pytest.fixture
def stages(configure):
    """The stages of the small run in exact numerics, not compiled."""
    config = configure("numerics=exact")
    return make_stages(config, launch.make_environment(config))


def test_a_primitive_without_a_rule_is_named_with_its_line(stages):

    def odd(*arguments):
        values = stages.advantages(*arguments)
        return values._replace(advantage=jax.scipy.special.digamma(values.advantage))

    found = certificates.certify_stages(stages._replace(advantages=odd), "exact")
    (each,) = found["advantages"].depends_on
    assert each.primitives == ("digamma",) and each.line.endswith("odd)")
    assert each.cause == certificates.REFUSED
    assert found["update"].depends_on == ()


# --- in the ledger -------------------------------------------------------------------------------


@pytest.mark.parametrize("numerics", ["native", "exact"])
def test_genesis_binds_an_exact_run_to_its_programs(
    configure, stages, shown, monkeypatch, tmp_path, numerics
):
    # What is compiled does not matter here, nor the start of the run.
    train, segment, _ = stage_arguments(stages)["advantages"]
    made = Programs(stages, {"train": train, "segment": segment}, "0" * 64, "0" * 64)
    monkeypatch.setattr(launch, "compile_stages", lambda *_: made)
    monkeypatch.setattr(launch.golden_streams, "check_start", lambda task: None)
    config = configure(f"numerics={numerics}")
    launch.prepare(config, tmp_path, resume=False, machine={"device.platform": "cpu"})
    genesis = json.loads((tmp_path / "ledger.jsonl").read_bytes().splitlines()[0])
    want = shown("numerics=exact")["certificate"] if numerics == "exact" else None
    assert genesis.get("certificate") == want


def test_the_help_names_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        certify.main(["--help"])
    said = capsys.readouterr().out
    assert all(each in said for each in ("--config", "--set", "--platforms", "--json"))
