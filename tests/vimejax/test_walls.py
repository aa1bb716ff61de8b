"""Walls: what an environment may not do while it is traced, named by file and line."""

import datetime
import functools
import logging
import operator
import os
import random
import secrets
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from random import uniform
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import rand

from vimejax import keys, registry, walls, wrap
from vimejax.errors import PurityError
from vimejax.types import Continuous, Environment, EnvSpec, timestep

WIDE = np.sqrt(2.0)  # a float64 of NumPy's
TABLE = np.linspace(0.0, 1.0, 5)
LOCAL = random.Random(3)
GENERATOR = np.random.default_rng(3)
CLOCK, DRAWS = "want no clock; count steps", "want draws from the key alone; draw with jax.random"
LOOKS = "want no look at the process or the machine; compute from the state"
ALONE = "want one thread; compute in reset or step itself"
BY_NAME, DATES, POOL = operator.methodcaller, [datetime.datetime], ThreadPoolExecutor(1)
FLOATS = "want float32 or integers; write jnp.float32"


def environment(touch, where: str = "step") -> Environment:
    """A counter that calls `touch(x)` in its step, or in its reset."""

    def reset(key):
        x = jnp.zeros((2,), jnp.float32)
        return (touch(x) if where == "reset" else x), timestep(jnp.zeros((2,), jnp.float32))

    def step(state, action, key):
        state = touch(state) if where == "step" else state + jnp.float32(1)
        return state, timestep(jnp.zeros((2,), jnp.float32))

    return Environment(EnvSpec("counter", 2, Continuous(1)), reset, step)


def trace(env: Environment) -> str:
    """The programs of a walled environment, as text."""
    env = walls.walled(env)
    key = jax.random.key(0)
    state = jax.eval_shape(env.reset, key)[0]
    start = jax.make_jaxpr(env.reset)(key)
    return f"{start}\n{jax.make_jaxpr(env.step)(state, jnp.zeros((1,)), key)}"


def plus(value) -> float:
    return 0.0 * float(value)


def callback(function):
    return functools.partial(function)()


# Each is one line, so that its first line is the one to be named.
FORBIDDEN = [
    ("time.time", lambda x: x + plus(time.time()), CLOCK),
    ("time.perf_counter", lambda x: x + plus(perf_counter()), CLOCK),
    ("time.monotonic_ns", lambda x: x + plus(time.monotonic_ns()), CLOCK),
    ("time.sleep", lambda x: x + plus(time.sleep(0) or 0), CLOCK),
    ("datetime.datetime.now", lambda x: x + plus(datetime.datetime.now().second), CLOCK),
    ("datetime.date.today", lambda x: x + plus(datetime.date.today().day), CLOCK),
    ("random.random", lambda x: x + plus(random.random()), DRAWS),
    ("random.uniform", lambda x: x + plus(uniform(0, 1)), DRAWS),
    ("random.seed", lambda x: x + plus(random.seed(1) or 0), DRAWS),
    ("random.shuffle", lambda x: x + plus(random.shuffle([1, 2]) or 0), DRAWS),
    ("os.urandom", lambda x: x + plus(os.urandom(1)[0]), DRAWS),
    ("os.urandom", lambda x: x + plus(secrets.randbelow(5)), DRAWS),
    ("os.urandom", lambda x: x + plus(uuid.uuid4().int % 2), DRAWS),
    ("os.urandom", lambda x: x + plus(np.random.default_rng().random()), DRAWS),
    ("uuid.uuid1", lambda x: x + plus(uuid.uuid1().int % 2), CLOCK),
    ("uuid.uuid1", lambda x: x + plus(functools.partial(uuid.uuid1)().int % 2), CLOCK),
    ("os.times", lambda x: x + plus(os.times().user), CLOCK),
    ("time.time", lambda x: x + plus(functools.partial(time.time)()), CLOCK),
    ("time.time", lambda x: x + plus(next(iter(time.time, None))), CLOCK),
    ("random.random", lambda x: x + plus(functools.partial(random.random)()), DRAWS),
    ("datetime.datetime.now", lambda x: x + plus(callback(datetime.datetime.now).day), CLOCK),
    ("operator.methodcaller of now", lambda x: x + plus(BY_NAME("now")(DATES[0]).day), CLOCK),
    ("numpy.datetime64", lambda x: x + plus(np.datetime64("now").astype(int)), CLOCK),
    ("numpy.datetime64", lambda x: x + plus(np.datetime64("today", "D").astype(int)), CLOCK),
    ("random.Random without a seed", lambda x: x + plus(random.Random().random()), DRAWS),
    ("random.Random without a seed", lambda x: x + plus(LOCAL.seed(None) or 0), DRAWS),
    ("tempfile.mktemp", lambda x: x + plus(len(tempfile.mktemp())), DRAWS),
    ("os.getpid", lambda x: x + plus(os.getpid()), LOOKS),
    ("os.getloadavg", lambda x: x + plus(os.getloadavg()[0]), LOOKS),
    ("starts a thread", lambda x: x + plus(threading.Thread(target=int).start() or 0), ALONE),
    ("starts a thread", lambda x: x + plus(POOL.submit(int).result()), ALONE),
    ("numpy.random.rand", lambda x: x + plus(np.random.rand()), DRAWS),
    ("numpy.random.rand", lambda x: x + plus(rand()), DRAWS),
    ("numpy.random.seed", lambda x: x + plus(np.random.seed(1) or 0), DRAWS),
    ("gives JAX a float64", lambda x: x * WIDE, FLOATS),
    ("gives JAX a float64", lambda x: WIDE * x, FLOATS),
    ("gives JAX a float64", lambda x: jnp.maximum(x, WIDE), FLOATS),
    ("gives JAX a float64", lambda x: x + jnp.asarray(TABLE)[:2], FLOATS),
    ("gives JAX a float64", lambda x: jnp.stack([x[0], np.sin(0.3)]), FLOATS),
    ("asks JAX for float64", lambda x: x.astype(jnp.float64), FLOATS),
    ("gives JAX a float64", lambda x: x + jnp.asarray([[np.float64(0.1)]])[0], FLOATS),
    ("gives JAX a float64", lambda x: x + jnp.asarray([[[[WIDE]]]])[0, 0, 0], FLOATS),
    ("gives JAX a float64", lambda x: jax.tree.map(jnp.sin, ({"a": [(x, WIDE)]},)) and x, FLOATS),
    ("asks JAX for float64", lambda x: x.astype("f8"), FLOATS),
    ("asks JAX for float64", lambda x: x.astype("<f8"), FLOATS),
    ("asks JAX for float64", lambda x: x.astype("d"), FLOATS),
    ("asks JAX for float64", lambda x: x + jnp.zeros(2, dtype="d"), FLOATS),
    ("asks JAX for float64", lambda x: x + jnp.sum(x, dtype="d"), FLOATS),
    ("asks JAX for complex128", lambda x: x + jnp.zeros(2, "c16").real, FLOATS),
    ("asks JAX for float64", lambda x: x + jnp.zeros(2, "float64"), FLOATS),
    ("asks JAX for float64", lambda x: x + jnp.zeros(2, np.float64), FLOATS),
    ("asks JAX for float64", lambda x: x + jnp.zeros(2, dtype=np.dtype("float64")), FLOATS),
]


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize(
    ("name", "touch", "rest"), FORBIDDEN, ids=[f"{n}-{each[0]}" for n, each in enumerate(FORBIDDEN)]
)
def test_it_is_caught_with_file_and_line(name, touch, rest, where) -> None:
    line = touch.__code__.co_firstlineno
    with pytest.raises(PurityError) as caught:
        trace(environment(touch, where))
    said = str(caught.value)
    assert said.startswith(f"{where} of task counter: ")
    assert f"{name} at {__file__}:{line} in <lambda>, {rest}" in said
    assert sys.getprofile() is None


def inner_import(x):
    import numpy

    return x + plus(numpy.random.rand())


def inner_from(x):
    from numpy.random import standard_normal

    return x + plus(standard_normal())


@pytest.mark.parametrize(("touch", "lines"), [(inner_import, 3), (inner_from, 1)])
def test_numpy_imported_in_the_function_is_caught(touch, lines) -> None:
    line = touch.__code__.co_firstlineno + lines
    with pytest.raises(PurityError, match=rf"numpy\.random\.\w+ at .*test_walls.py:{line} in"):
        trace(environment(touch))


def by_another_way():
    modules = [np.random]
    return lambda x: x + plus(modules[0].rand())


def test_numpy_reached_by_another_way_is_found_by_its_state(monkeypatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with pytest.raises(PurityError, match="has moved NumPy's global random state at .*test_walls"):
        trace(environment(by_another_way()))


def test_beside_other_threads_a_moved_state_accuses_nobody(monkeypatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    trace(environment(by_another_way()))


ALLOWED = [
    lambda x: x * jnp.float32(WIDE),
    lambda x: x * float(WIDE) + np.pi,
    lambda x: x + jnp.asarray(TABLE[:2], jnp.float32),
    lambda x: x + jnp.asarray(TABLE, dtype="float32")[:2],
    lambda x: x + jnp.asarray([[[0.1]]])[0, 0] + jnp.asarray([[np.float64(0.1)]], "f4")[0],
    lambda x: x + jnp.sum(x, dtype="f") + jnp.zeros(2, dtype="bfloat16").astype("<f4"),
    lambda x: jax.vmap(lambda y: y + jax.lax.psum(y, "d"), axis_name="d")(x),
    lambda x: x + plus(random.Random(3).random()) + plus(LOCAL.seed(3) or 0),
    lambda x: x + plus(np.datetime64("2020-01-01").astype(int)) + plus(uuid.UUID(int=1).int),
    lambda x: x + functools.partial(jnp.sin)(x) + plus(operator.methodcaller("count", 1)([1])),
    lambda x: x + TABLE.astype(np.float32)[:2],
    lambda x: x + jnp.zeros(2, float) + jnp.ones(2),
    lambda x: x + plus(LOCAL.random()) + plus(GENERATOR.random()),
    lambda x: x + plus(datetime.datetime(2020, 1, 1).day) + plus(time.mktime((2020, *[1] * 8)) * 0),
    lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * jnp.float32(0.5), x),
]


@pytest.mark.parametrize("number", range(len(ALLOWED)))
def test_what_is_sound_is_let_through(number: int) -> None:
    trace(environment(ALLOWED[number]))


def test_a_library_may_read_the_clock_for_its_own_log() -> None:
    def touch(x):
        logging.getLogger("vimejax.test").warning("a log line holds the time")
        with jax.named_scope("scope"):
            return x + jnp.float32(1)

    trace(environment(touch))


def test_the_programs_are_those_without_walls(monkeypatch) -> None:
    envs = [registry.bare(name) for name in ("pendulum", "sparse_grid", "noisy_point")]
    with_walls = [trace_stream(env) for env in envs]
    monkeypatch.setattr(walls, "walled", lambda env: env)
    assert with_walls == [trace_stream(env) for env in envs]


def trace_stream(env: Environment) -> str:
    stream = wrap.stream(env, 2)
    ids = jnp.arange(2, dtype=jnp.uint32)
    each = jax.vmap(keys.environment_key, (None, 0))(keys.run_key(0, keys.Stream.TRAIN), ids)
    state = jax.eval_shape(stream.init, each)[0]
    shape = (2, env.spec.action.size) if isinstance(env.spec.action, Continuous) else (2,)
    dtype = jnp.float32 if isinstance(env.spec.action, Continuous) else jnp.int32
    return str(jax.make_jaxpr(stream.step)(state, jnp.zeros(shape, dtype)))


def test_a_stream_and_the_registry_stand_behind_walls(monkeypatch) -> None:
    def touch(x):
        return x + plus(time.time())

    with pytest.raises(PurityError, match="step of task counter: calls time.time"):
        trace_stream(environment(touch))
    monkeypatch.setitem(registry.PLAIN, "counter", lambda: environment(touch))
    env = registry.make("counter", episode_length=3)
    state = jax.eval_shape(env.reset, jax.random.key(0))[0]
    with pytest.raises(PurityError, match="step of task counter: calls time.time"):
        jax.eval_shape(env.step, state, jnp.zeros((1,)), jax.random.key(0))


def test_what_the_environment_catches_is_raised_all_the_same() -> None:
    def touch(x):
        try:
            return x + plus(time.time())
        except Exception:
            return x

    with pytest.raises(PurityError, match="calls time.time"):
        trace(environment(touch))
    assert sys.getprofile() is None


def test_an_error_of_the_environments_own_leaves_nothing_behind() -> None:
    def touch(x):
        raise RuntimeError("of its own")

    before = time.time, random.random, np.random.rand, sys.gettrace()
    with pytest.raises(RuntimeError, match="of its own"):
        trace(environment(touch))
    assert sys.getprofile() is None
    assert before == (time.time, random.random, np.random.rand, sys.gettrace())


def test_other_threads_go_on_as_they_were() -> None:
    stop, seen, failed = threading.Event(), [], []

    def busy() -> None:
        try:
            while not stop.is_set():
                seen.append(time.time() + random.random() + np.random.rand())
                seen.append(sys.getprofile())
                time.sleep(0.0005)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            trace(environment(lambda x: jnp.sin(x) + jnp.float32(1)))
    finally:
        stop.set()
        thread.join()
    assert not failed and len(seen) > 4 and set(seen[1::2]) == {None}


def test_two_threads_each_find_their_own() -> None:
    found: dict[str, str] = {}
    start = threading.Barrier(2)

    def run(name, touch) -> None:
        start.wait()
        for _ in range(3):
            try:
                trace(environment(touch))
            except PurityError as error:
                found[name] = str(error)

    touches = {"a": lambda x: x + plus(time.time()), "b": lambda x: x + plus(random.random())}
    threads = [threading.Thread(target=run, args=item) for item in touches.items()]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert "time.time" in found["a"] and "random.random" in found["b"]


def test_walls_within_walls_name_the_inner_one_and_come_down_together() -> None:
    inner = environment(lambda x: x + plus(time.time()))
    with pytest.raises(PurityError, match="step of task counter: calls time.time"):
        trace(wrap.time_limit(walls.walled(inner), 3))
    sound = walls.walled(environment(lambda x: x + jnp.float32(1)))

    def late(state, action, key):
        out = sound.step(state, action, key)
        return (out[0] + plus(time.time()), out[1])

    with pytest.raises(PurityError, match="calls time.time .* in late"):
        trace(Environment(sound.spec, sound.reset, late))


def test_a_profile_function_of_the_users_sees_its_calls_and_comes_back() -> None:
    names = []

    def profile(frame, event, arg):
        if event == "call":
            names.append(frame.f_code.co_name)

    def marked(x):
        return x + jnp.float32(1)

    sys.setprofile(profile)
    try:
        trace(environment(marked))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "marked" in names


def test_a_compiled_program_runs_no_wall(monkeypatch) -> None:
    env = walls.walled(environment(lambda x: x + jnp.float32(1)))
    step = jax.jit(env.step)
    arguments = (jnp.zeros((2,)), jnp.zeros((1,)), jax.random.key(0))
    step(*arguments)
    monkeypatch.setattr(walls, "_Watch", None)  # would fail if called
    assert step(*arguments)[0].tolist() == [1.0, 1.0]


def test_a_wide_leaf_is_named_by_its_place() -> None:
    env = environment(lambda x: x)

    def reset(key):
        return {"speed": np.zeros(2)}, env.reset(key)[1]

    with pytest.raises(PurityError, match=r"reset of task counter: returns \[0\]\['speed'\] as f"):
        walls.walled(Environment(env.spec, reset, env.step)).reset(jax.random.key(0))


def test_an_engine_is_left_alone() -> None:
    env = environment(lambda x: x + plus(time.time()))
    env.reset.__module__ = "vimejax.engines.brax"
    assert walls.walled(env) is env
    limited = wrap.time_limit(env, 3)
    assert walls.walled(limited) is limited


def test_an_installed_environment_is_its_own_code(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "site-packages"
    (folder / "their_env").mkdir(parents=True)
    (folder / "their_env" / "__init__.py").write_text(
        "import time\n\n\ndef step(state, action, key):\n    return time.time(), None\n"
    )
    (folder / "their_lib.py").write_text(
        "import time\n\n\ndef stamp(x):\n    time.time()\n    return x\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    import their_env
    import their_lib

    env = environment(their_lib.stamp)
    trace(env)
    partial = functools.partial(their_env.step)
    with pytest.raises(PurityError, match="calls time.time at .*their_env.*:5 in step"):
        trace(Environment(env.spec, env.reset, partial))
