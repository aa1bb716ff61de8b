"""Conditions: how they are written, what they set, and what is refused before anything starts."""

import os

import pytest

from rlkjax.comparison import conditions
from rlkjax.comparison.conditions import Condition
from rlkjax.errors import InputError, MachineError
from rlkjax.platform import flags


def test_the_conditions_of_the_documentation():
    text = "cpu:exact, cpu:native:threads=1,cpu:devices=4,cpu:isa=AVX:vector=512,rocm:devices=2"
    assert conditions.parse(text) == [
        Condition("cpu:exact", numerics="exact"),
        Condition("cpu:native:threads=1", numerics="native", threads=1),
        Condition("cpu:devices=4", "--xla_force_host_platform_device_count=4", spread=4),
        Condition(
            "cpu:isa=AVX:vector=512", "--xla_cpu_max_isa=AVX --xla_cpu_prefer_vector_width=512"
        ),
        Condition("rocm:devices=2", platform="rocm", spread=2),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu", "want two conditions or more"),
        ("", "no platform ''"),
        ("cpu,tpu", "got 'tpu' with no platform 'tpu'"),
        ("cpu,cpu:fast", "no setting 'fast'"),
        ("cpu,cpu:threads", "threads='', want a number from 1 to 1024"),
        ("cpu,cpu:threads=0", "threads='0', want a number from 1 to 1024"),
        ("cpu,cpu:cores=-1", "cores='-1'"),
        ("cpu,cpu:isa=MMX", "no setting 'isa=MMX'"),
        ("cpu,cpu:vector=100", "no setting 'vector=100'"),
        ("cpu,cpu:threads=1:threads=2", "a setting that stands twice"),
        ("cpu,cpu:exact:native", "a setting that stands twice"),
        ("cpu,rocm:isa=AVX", "isa, which is a setting of cpu alone"),
        ("cpu,cuda:threads=2", "threads, which is a setting of cpu alone"),
    ],
)
def test_what_is_not_of_the_form_is_refused_with_the_form(text, said):
    with pytest.raises(InputError, match="--platforms: got") as caught:
        conditions.parse(text)
    assert said in str(caught.value)
    if "two conditions" not in said:
        assert "PLATFORM[:exact|native]" in str(caught.value)


def test_a_platform_without_its_plugin_is_refused(configure):
    with pytest.raises(MachineError, match="asked for rocm, but no plugin for it is installed"):
        conditions.check(Condition("rocm", platform="rocm"), configure())


def test_more_cores_than_there_are_and_devices_that_do_not_divide(configure):
    have = len(os.sched_getaffinity(0))
    conditions.check(Condition("all", cores=have), configure())
    with pytest.raises(MachineError, match=f"asked for {have + 1} cores, .* may use {have}"):
        conditions.check(Condition("more", cores=have + 1), configure())
    conditions.check(Condition("two", spread=2), configure())
    with pytest.raises(InputError, match="got 3 devices, which do not divide rollout.num_envs 4"):
        conditions.check(Condition("three", spread=3), configure())


def test_flags_of_a_condition_replace_pinned_ones_and_leave_the_others():
    words = conditions.flag_words(Condition("x", "--xla_cpu_prefer_vector_width=512")).split()
    pinned = flags.native_flags("cpu")
    assert pinned["xla_cpu_prefer_vector_width"] != "512"
    want = {**pinned, "xla_cpu_prefer_vector_width": "512"}
    assert dict(word.removeprefix("--").split("=") for word in words) == want
    assert conditions.flag_words(Condition("bare", pinned=False)) == ""
    gpu = conditions.flag_words(Condition("rocm", platform="rocm"))
    assert "--xla_gpu_autotune_level=0" in gpu.split()


def test_variables_that_decide_over_bits_are_not_inherited():
    outside = {"XLA_FLAGS": "--x=1", "JAX_ENABLE_X64": "1", "PJRT_NPROC": "7", "HOME": "here"}
    plain = conditions.variables(Condition("cpu"), outside)
    assert (plain["JAX_ENABLE_X64"], plain["JAX_PLATFORMS"], plain["HOME"]) == (
        "false",
        "cpu",
        "here",
    )
    assert "--x=1" not in plain["XLA_FLAGS"]
    assert plain["PJRT_NPROC"] == "7"
    assert conditions.variables(Condition("one", threads=1), outside)["PJRT_NPROC"] == "1"
    rocm = conditions.variables(Condition("rocm", platform="rocm"), outside)
    assert rocm["JAX_PLATFORMS"] == "rocm,cpu"
