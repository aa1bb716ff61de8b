"""The fixed XLA flags of native numerics, set before JAX starts and checked to be in force.

prepare(platform)      first thing in a command
check_in_force()       after it, before the first program is compiled
"""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping

from rlkjax.errors import InputError, MachineError
from rlkjax.platform import devices, xla_probe

# What moves bits on CPU: contraction and re-association, platform libraries, vector width.
CPU = {
    "xla_cpu_enable_fast_math": "false",
    "xla_cpu_enable_fast_min_max": "false",
    "xla_allow_excess_precision": "false",
    "xla_cpu_enable_platform_dependent_math": "false",
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_prefer_vector_width": "256",
}
# On GPU: kernels chosen by timing, atomics, subnormals, captured command buffers.
ROCM = {
    "xla_gpu_autotune_level": "0",
    "xla_gpu_exclude_nondeterministic_ops": "true",
    "xla_gpu_enable_triton_gemm": "false",
    "xla_gpu_ftz": "true",
    "xla_allow_excess_precision": "false",
    "xla_gpu_enable_command_buffer": "",
}
CUDA = {
    "xla_gpu_autotune_level": "0",
    "xla_gpu_exclude_nondeterministic_ops": "true",
    "xla_gpu_enable_triton_gemm": "false",
    "xla_gpu_ftz": "true",
    "xla_allow_excess_precision": "false",
    # No contraction to FMA, and division and square root rounded correctly.
    "xla_backend_extra_options": (
        "-nvptx-fma-level=0,-nvptx-prec-divf32=2,-nvvm-reflect-add=__CUDA_PREC_SQRT=1"
    ),
}
THREADS = "PJRT_NPROC"
_AUTOTUNE = "xla_gpu_autotune_level"

# Variables that would undo the settings below: name, the values that agree, what to do.
_VARIABLES = (
    ("JAX_ENABLE_X64", ("0", "false"), "programs here are float32"),
    ("JAX_DISABLE_JIT", ("0", "false"), "eager and compiled programs have other bits"),
    ("JAX_THREEFRY_PARTITIONABLE", ("1", "true"), "random bits would depend on the layout"),
    ("JAX_DEFAULT_MATMUL_PRECISION", ("highest", "float32"), "products would lose precision"),
    ("NVIDIA_TF32_OVERRIDE", ("0",), "products would lose precision"),
    ("MIOPEN_FIND_ENFORCE", ("1", "none"), "kernels would be searched for by timing"),
)


def native_flags(platform: str, *, autotune: bool = False) -> dict[str, str]:
    """Flags that native numerics pins on a platform; the CPU's are always among them.

    Args:
      platform: cpu, rocm or cuda.
      autotune: leave the choice of kernels by timing to XLA; bits may then change between runs.

    Returns:
      Flag name, without dashes, to value.

    Raises:
      InputError: another platform.
    """
    extra = {"cpu": {}, "rocm": ROCM, "cuda": CUDA}.get(platform)
    if extra is None:
        raise InputError(f"platform: got {platform!r}, want one of cpu, rocm, cuda")
    flags = {**CPU, **extra}
    return {name: value for name, value in flags.items() if not (autotune and name == _AUTOTUNE)}


def parse(text: str) -> dict[str, str]:
    """Flags in a value of XLA_FLAGS.

    Args:
      text: flags apart by white space, "--name=value" or "--name" for true.

    Returns:
      Name to value; true and false are spelt so.

    Raises:
      InputError: a file name, a broken quote, white space in a value, or a flag with two values.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"XLA_FLAGS: got {text!r} ({error}); close the quote") from None
    flags: dict[str, str] = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise InputError(
                f"XLA_FLAGS: got {word!r}, want --name=value; a file of flags is not read, write "
                "them out"
            )
        if any(letter.isspace() for letter in value):
            raise InputError(f"XLA_FLAGS: --{name} has white space in {value!r}; leave it out")
        value = _spelt(value) if equals else "true"
        if flags.get(name, value) != value:
            raise InputError(
                f"XLA_FLAGS: --{name} is given twice, as {flags[name]!r} and {value!r}; keep one"
            )
        flags[name] = value
    return flags


def merge(pinned: Mapping[str, str], user: Mapping[str, str]) -> tuple[str, ...]:
    """The pinned flags, then those of the user that are not pinned.

    Args:
      pinned: from `native_flags`.
      user: from `parse`.

    Returns:
      Words "--name=value".

    Raises:
      InputError: the user gives a pinned flag another value.
    """
    for name, value in user.items():
        if pinned.get(name, value) != value:
            raise InputError(
                f"XLA_FLAGS: --{name} is {value!r}, but a run pins it to "
                f"{pinned[name]!r}; remove it from XLA_FLAGS"
            )
    return tuple(f"--{name}={value}" for name, value in {**pinned, **user}.items())


def not_pinned(words: Iterable[str], platform: str) -> tuple[str, ...]:
    """The flags that native numerics does not pin: those that the user adds.

    Args:
      words: "--name=value", as `prepare` returns them.
      platform: cpu, rocm or cuda.

    Returns:
      Those words.
    """
    pinned = native_flags(platform)
    return tuple(word for word in words if word[2:].partition("=")[0] not in pinned)


def prepare(platform: str, autotune: bool = False, threads: int | None = None) -> tuple[str, ...]:
    """Set XLA_FLAGS and JAX's settings for a run; call before JAX computes anything.

    Sets XLA_FLAGS and JAX_PLATFORMS in this process's environment, imports jax, and sets matmul
    precision highest, partitionable threefry, 64-bit off and the compilation cache off. A second
    call with the same platform is good.

    Args:
      platform: auto, cpu, rocm or cuda.
      autotune: see `native_flags`.
      threads: worker threads of XLA on CPU; None: one for each core that the process may use.

    Returns:
      The flags in XLA_FLAGS, words "--name=value".

    Raises:
      InputError: a variable or flag conflicts, is misspelt, or JAX has already started without
        these flags.
      MachineError: rocm or cuda without its plugin, or an XLA that lacks a pinned flag.
    """
    resolved = devices.resolve(platform)
    _check_variables(os.environ, resolved)
    if resolved != "cpu":
        devices.require_plugin(resolved)
        devices.visible_devices(os.environ)
    pinned = native_flags(resolved, autotune=autotune)
    user = parse(os.environ.get("XLA_FLAGS", ""))
    words = merge(pinned, user)
    if _jax_started():
        _check_started(words)
    else:
        _check_names(pinned)
        if set(user) - set(pinned):
            xla_probe.check_accepted(" ".join(words))
    if threads is not None:
        _set_threads(threads)
    os.environ["XLA_FLAGS"] = " ".join(words)
    os.environ["JAX_PLATFORMS"] = _platforms(resolved)
    _configure(resolved)
    return words


def _set_threads(threads: int) -> None:
    """XLA sizes its pool by this variable when it starts; a sum's bits depend on the size."""
    written = os.environ.get(THREADS, str(threads))
    if written != str(threads) or (_jax_started() and THREADS not in os.environ):
        raise InputError(
            f"threads: got {threads}, but {THREADS} is {os.environ.get(THREADS, 'unset')} and JAX "
            f"{'has started' if _jax_started() else 'would follow it'}; unset the variable, and "
            "start the command before anything uses JAX"
        )
    os.environ[THREADS] = str(threads)


def check_in_force(pinned: Mapping[str, str] | None = None) -> dict[str, str]:
    """Whether XLA reads the flags in XLA_FLAGS as they stand there.

    Args:
      pinned: flags to check; all native ones in XLA_FLAGS by default.

    Returns:
      The flags checked, name to value.

    Raises:
      MachineError: a flag has another value in XLA than in XLA_FLAGS.
    """
    in_environment = parse(os.environ.get("XLA_FLAGS", ""))
    known = {**CPU, **ROCM, **CUDA}
    if pinned is None:
        pinned = {name: value for name, value in in_environment.items() if name in known}
    missing = [name for name in CPU if name not in pinned]
    if missing:
        raise MachineError(
            f"XLA_FLAGS lacks --{missing[0]}; call rlkjax.platform.flags.prepare before JAX starts"
        )
    wrong = xla_probe.out_of_force(pinned, xla_probe.options_in_force())
    for name, have in wrong.items():
        got = ",".join(have) or "its default"
        raise MachineError(
            f"XLA flag --{name} is {got} in this process, want {pinned[name]!r}; XLA read its "
            "flags before they were set, so call prepare earlier"
        )
    return dict(pinned)


def _spelt(value: str) -> str:
    """Booleans in one spelling, so that "False" does not conflict with "false"."""
    return value.lower() if value.lower() in ("true", "false") else value


def _check_names(pinned: Mapping[str, str]) -> None:
    for name in pinned:
        if not xla_probe.is_known(name):
            raise MachineError(
                f"the installed XLA has no flag --{name}, which native numerics pins; found "
                f"{devices.versions_line()}; install the versions in requirements/"
            )


def _check_variables(environment: Mapping[str, str], resolved: str) -> None:
    for name, agreeing, reason in _VARIABLES:
        value = environment.get(name)
        if value is not None and value.strip().lower() not in agreeing:
            raise InputError(
                f"environment variable {name}: got {value!r}, want {agreeing[0]} or unset, since "
                f"{reason}; unset it"
            )
    pool = environment.get(THREADS)
    if pool is not None and not (pool.isdecimal() and int(pool) > 0):
        raise InputError(
            f"environment variable {THREADS}: got {pool!r}, want a number of worker threads; unset "
            "it, or set threads in the config"
        )
    asked = environment.get("JAX_PLATFORMS", "")
    if asked and asked.split(",")[0].strip() not in (resolved, "gpu" if resolved != "cpu" else ""):
        raise InputError(
            f"environment variable JAX_PLATFORMS: got {asked!r}, but the run is for {resolved}; "
            "unset it, or set platform in the config"
        )


def _jax_started() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def _check_started(words: tuple[str, ...]) -> None:
    """JAX runs already: fine if it runs with just these flags, else too late."""
    written = os.environ.get("XLA_FLAGS", "")
    wanted = parse(" ".join(words))
    same = parse(written) == wanted
    wrong = xla_probe.out_of_force(
        {name: value for name, value in wanted.items() if name in {**CPU, **ROCM, **CUDA}},
        xla_probe.options_in_force(),
    )
    if wrong or not same:
        name = next(iter(wrong), next(iter(wanted)))
        raise InputError(
            f"XLA flag --{name} would be set after JAX has started, and would be ignored; call "
            "prepare, or start the command, before anything uses JAX"
        )


def _platforms(resolved: str) -> str:
    return "cpu" if resolved == "cpu" else f"{resolved},cpu"


def _configure(resolved: str) -> None:
    """JAX's own settings, which may be set after its import but not after its first use."""
    import jax  # late: JAX reads its environment when imported

    jax.config.update("jax_platforms", _platforms(resolved))
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_threefry_partitionable", True)
    jax.config.update("jax_enable_x64", False)
    # A cached program may have been compiled on another machine, or with a timed choice of kernels.
    jax.config.update("jax_enable_compilation_cache", False)
