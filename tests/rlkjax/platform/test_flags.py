"""Flags: pinned, merged, refused and read back (pitfall A06)."""

import pytest

from rlkjax.errors import InputError, MachineError
from rlkjax.platform import flags, xla_probe

PREPARE = "from rlkjax.platform import flags; flags.prepare('cpu'); flags.check_in_force()"


def test_words_are_read_as_xla_reads_them() -> None:
    assert flags.parse(" --xla_a=1\n--xla_b --xla_c=False --xla_d=") == {
        "xla_a": "1",
        "xla_b": "true",
        "xla_c": "false",
        "xla_d": "",
    }


def test_the_flags_of_the_user_are_those_that_are_not_pinned() -> None:
    words = flags.merge(flags.native_flags("cpu"), {"xla_cpu_max_isa": "AVX"})
    assert flags.not_pinned(words, "cpu") == ("--xla_cpu_max_isa=AVX",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flags.txt", "a file of flags is not read"),
        ("xla_gpu_ftz=true", "want --name=value"),
        ("'--xla_a=1", "close the quote"),
        ("--xla_a='1 2'", "white space"),
        ("--xla_a=1 --xla_a=2", "given twice, as '1' and '2'"),
    ],
)
def test_a_broken_variable_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        flags.parse(text)


def test_pinned_flags_come_first_and_the_users_own_are_kept() -> None:
    assert flags.merge({"xla_p": "1"}, {"xla_u": "2", "xla_p": "1"}) == ("--xla_p=1", "--xla_u=2")


def test_a_conflict_names_the_flag_and_both_values() -> None:
    with pytest.raises(InputError, match="--xla_p is '2', but a run pins it to '1'"):
        flags.merge({"xla_p": "1"}, {"xla_p": "2"})


@pytest.mark.parametrize("platform", ["cpu", "rocm", "cuda"])
def test_every_pinned_flag_is_known_to_this_xla(platform: str) -> None:
    pinned = flags.native_flags(platform)
    assert set(flags.CPU) <= set(pinned)
    assert [name for name in pinned if not xla_probe.is_known(name)] == []
    xla_probe.check_accepted(" ".join(flags.merge(pinned, {})))


def test_autotune_leaves_the_choice_of_kernels_to_xla() -> None:
    assert "xla_gpu_autotune_level" in flags.native_flags("rocm")
    assert "xla_gpu_autotune_level" not in flags.native_flags("rocm", autotune=True)


def test_an_unknown_platform_has_no_flags() -> None:
    with pytest.raises(InputError, match="got 'tpu', want one of cpu, rocm, cuda"):
        flags.native_flags("tpu")


def test_options_are_read_from_their_text_form() -> None:
    text = 'x\nxla_a:  false\nxla_s: "w o"\nxla_l: A\nxla_l: B\nxla_m {\n  key: "k"\n  value: ""\n}'
    assert xla_probe.parse_options(text) == {
        "xla_a": ("false",),
        "xla_s": ("w o",),
        "xla_l": ("A", "B"),
        "xla_m": ("k=",),
    }


def test_out_of_force_names_what_stands_there_instead() -> None:
    options = {"xla_a": ("true",), "xla_l": ("A",), "xla_m": ("k=1", "j=2")}
    assert xla_probe.out_of_force({"xla_a": "true", "xla_m": "k=1", "xla_z": "0"}, options) == {}
    wrong = xla_probe.out_of_force({"xla_a": "false", "xla_l": "", "xla_n": "3"}, options)
    assert wrong == {"xla_a": ("true",), "xla_l": ("A",), "xla_n": ()}


def test_the_flags_of_this_process_are_in_force() -> None:
    assert set(flags.check_in_force()) >= set(flags.CPU)


def test_a_flag_with_another_value_is_found() -> None:
    with pytest.raises(MachineError, match="xla_cpu_prefer_vector_width is 256 .* want '512'"):
        flags.check_in_force({**flags.CPU, "xla_cpu_prefer_vector_width": "512"})


def test_a_second_call_is_good_and_a_late_other_one_is_not(monkeypatch) -> None:
    import jax

    jax.devices()
    assert flags.prepare("cpu") == flags.prepare("cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    with pytest.raises(InputError, match="after JAX has started"):
        flags.prepare("cpu")


def test_jax_settings_are_made(python) -> None:
    code = PREPARE + (
        "; import jax; c = jax.config; print(c.jax_default_matmul_precision, c.jax_enable_x64,"
        " c.jax_threefry_partitionable, c.jax_platforms, c.jax_enable_compilation_cache)"
    )
    assert python(code).stdout.split() == ["highest", "False", "True", "cpu", "False"]


def test_a_late_call_is_refused(python) -> None:
    done = python("import jax; jax.devices(); " + PREPARE)
    assert done.returncode == 1
    assert "would be set after JAX has started" in done.stderr.splitlines()[-1]


def test_flags_that_xla_read_too_early_are_found(python) -> None:
    early = (
        "from jaxlib import xla_client as x; o = x.CompileOptions();"
        " b = o.executable_build_options; b.debug_options; "
    )
    done = python(early + PREPARE)
    assert done.returncode == 1
    assert "XLA read its flags before they were set" in done.stderr.splitlines()[-1]


def test_a_misspelt_flag_is_a_sentence_and_no_abort(python) -> None:
    done = python(PREPARE, XLA_FLAGS="--xla_cpu_enable_fast_maht=false")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "no flag --xla_cpu_enable_fast_maht; did you mean xla_cpu_enable_fast_math" in last


def test_a_value_that_xla_cannot_read_is_a_sentence(python) -> None:
    done = python(PREPARE, XLA_FLAGS="--xla_force_host_platform_device_count=two")
    assert "InputError: XLA_FLAGS: XLA does not accept them" in done.stderr.splitlines()[-1]


def test_a_flag_of_the_users_own_is_kept(python) -> None:
    code = PREPARE + "; import os, jax; print(os.environ['XLA_FLAGS'], jax.device_count())"
    done = python(code, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert done.stdout.split()[-2:] == ["--xla_force_host_platform_device_count=2", "2"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JAX_ENABLE_X64", "1"),
        ("JAX_DISABLE_JIT", "True"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "bfloat16"),
        ("JAX_THREEFRY_PARTITIONABLE", "0"),
        ("NVIDIA_TF32_OVERRIDE", "1"),
        ("MIOPEN_FIND_ENFORCE", "3"),
        ("JAX_PLATFORMS", "cuda"),
    ],
)
def test_a_variable_that_would_undo_it_is_refused(monkeypatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"environment variable {name}: got '{value}'.*unset it"):
        flags.prepare("cpu")


def test_importing_the_room_imports_no_jax(python) -> None:
    rooms = "rlkjax.platform.flags, rlkjax.platform.fingerprint"
    code = f"import sys, {rooms}; print('jax' in sys.modules)"
    assert python(code).stdout.strip() == "False"
