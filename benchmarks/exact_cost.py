"""Exact over plain JAX in one run: `python -m benchmarks.exact_cost`.

For each program: the best time of plain `jax.jit` and of `exact`, taken in turns, their ratio, the
CPU-seconds each takes to compile, and the memory that its values need. `--brax` adds a step of Brax
tasks. A whole iteration: `python -m benchmarks.exact_iteration`.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks import exact_programs
from benchmarks.exact_programs import normal
from rlkjax.exact import named
from rlkjax.exact.transform import exact

FUNCTIONS = [
    "tanh",
    "exp",
    "log",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "sqrt",
    "cbrt",
    "arctan",
    "arccos",
    "sinh",
]


class Program(NamedTuple):
    """A function and its arguments."""

    name: str
    fn: Callable[..., Any]
    args: Sequence[Any]


class Cost(NamedTuple):
    """What one program costs: milliseconds a call, CPU-seconds to compile, MiB of values."""

    name: str
    plain_ms: float
    exact_ms: float
    ratio: float
    plain_compile_s: float
    exact_compile_s: float
    plain_mib: float
    exact_mib: float


def elementary() -> list[Program]:
    """Functions of half a million numbers."""
    x = abs(normal(1, 2048, 256)) * 0.9
    found = [Program(name, getattr(jnp, name), (x,)) for name in FUNCTIONS]
    found.append(Program("logistic", jax.nn.sigmoid, (x,)))
    found.append(Program("erf", lax.erf, (x,)))
    found.append(Program("div", jnp.divide, (x, x + 1)))
    found.append(Program("pow", jnp.power, (x[:256], x[256:512])))
    found.append(Program("atan2", jnp.arctan2, (x, normal(2, 2048, 256))))
    return found


def accumulation() -> list[Program]:
    """Products of matrices and sums of PPO's shapes."""
    found = []
    for batch, inner, outer in ((256, 64, 64), (2048, 64, 64), (2048, 256, 256), (8192, 27, 64)):
        x, weights, ct = normal(3, batch, inner), normal(4, inner, outer), normal(5, batch, outer)
        size = f"{batch}x{inner}x{outer}"
        found.append(Program(f"gemm {size}", jnp.matmul, (x, weights)))
        found.append(Program(f"weight gradient {size}", lambda x, ct: x.T @ ct, (x, ct)))
    x = normal(6, 2048, 256)
    found.append(Program("sum of columns", lambda x: x.sum(0), (x,)))
    found.append(Program("sum of rows", lambda x: x.sum(1), (x,)))
    found.append(Program("sum of all", jnp.sum, (x,)))
    return found


def learning() -> list[Program]:
    """Parts of PPO."""
    p = exact_programs
    params = p.initial((27, 64, 64, 8))
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    x = normal(7, 2048, 27)
    steps = (normal(10, 128, 256), normal(11, 129, 256), normal(12, 128, 256) > -1)
    return [
        Program(
            "log_prob 2048x8", p.log_prob, (normal(8, 2048, 8), normal(9, 8), normal(13, 2048, 8))
        ),
        Program("gae 128x256", p.gae, steps),
        Program("policy 2048", p.network, (params, x)),
        Program("gradient 8 x 256", in_microbatches, (params, x, normal(14, 2048, 8))),
        Program("update 2048", p.update, (params, moments, x, normal(14, 2048, 8))),
    ]


def in_microbatches(params: Any, x: Any, target: Any) -> Any:
    """Gradient of a mean of squares, in 8 microbatches."""

    def loss(params: Any, x: Any, target: Any) -> Any:
        rest = exact_programs.network(params, x) - target
        return jnp.sum(rest * rest) / 2048

    parts = x.reshape(8, 256, -1), target.reshape(8, 256, -1)
    return named.accumulate(lambda part: jax.grad(loss)(params, *part), parts)


def brax(sizes: Sequence[int]) -> list[Program]:
    """One step of Brax tasks."""
    from brax import envs

    found = []
    for name in ("ant", "halfcheetah", "inverted_pendulum"):
        for backend in ("spring", "generalized"):
            env = envs.get_environment(name, backend=backend)
            for size in sizes:
                keys = jax.random.split(jax.random.key(1), size)
                state = jax.jit(jax.vmap(env.reset))(keys)
                actions = jnp.tanh(normal(15, size, env.action_size))
                found.append(
                    Program(f"{name} {backend} {size}", jax.vmap(env.step), (state, actions))
                )
    return found


def compiled(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, float]:
    """The program of `fn` and the CPU-seconds that tracing and compiling took."""
    began = time.process_time()
    program = jax.jit(fn).lower(*args).compile()
    return program, time.process_time() - began


def mib(program: Any) -> float:
    """Memory of the values inside a compiled program, in MiB."""
    return program.memory_analysis().temp_size_in_bytes / 2**20


def once(program: Callable[..., Any], args: Sequence[Any]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    jax.block_until_ready(program(*args))
    return (time.perf_counter() - began) * 1e3


def measure(program: Program, repeats: int) -> Cost:
    """Times both forms of a program in turns, so that both see the same load."""
    args = jax.tree.map(jnp.asarray, program.args)
    plain, plain_s = compiled(program.fn, args)
    ours, ours_s = compiled(exact(program.fn), args)
    times = [(once(plain, args), once(ours, args)) for _ in range(repeats + 2)][2:]
    plain_ms, exact_ms = min(t[0] for t in times), min(t[1] for t in times)
    ratio, memory = exact_ms / plain_ms, (mib(plain), mib(ours))
    return Cost(program.name, plain_ms, exact_ms, ratio, plain_s, ours_s, *memory)


def main() -> None:
    """Prints one line a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--brax", action="store_true", help="add steps of Brax tasks")
    parser.add_argument("--sizes", default="256,2048", help="numbers of environments")
    parser.add_argument("--repeats", type=int, default=40, help="calls of each program")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    options = parser.parse_args()
    programs = elementary() + accumulation() + learning()
    if options.brax:
        programs += brax([int(size) for size in options.sizes.split(",")])
    chosen = [program for program in programs if options.only in program.name]
    if not chosen:
        names = ", ".join(program.name for program in programs)
        parser.error(f"--only {options.only}: want a part of one of these names: {names}")
    for program in chosen:
        cost = measure(program, options.repeats)
        if options.json:
            print(json.dumps(cost._asdict()), flush=True)
        else:
            print(
                f"{cost.name:32} plain {cost.plain_ms:9.3f} ms  exact {cost.exact_ms:9.3f} ms  "
                f"ratio {cost.ratio:6.2f}  compile {cost.plain_compile_s:5.2f} s → "
                f"{cost.exact_compile_s:5.2f} s  "
                f"memory {cost.plain_mib:6.1f} → {cost.exact_mib:6.1f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
