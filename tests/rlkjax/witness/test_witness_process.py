"""Under which variables a run is computed again, and what is said when it cannot be."""

import json
import os

import pytest

from rlkjax.config import canonical_config, load_config
from rlkjax.errors import MachineError
from rlkjax.witness.process import Witness, environment_of

FINGERPRINT = {
    "cpu.threads": "6",
    "environment.JAX_TRACEBACK_FILTERING": "off",
    "environment.XLA_DUMP": "<path>",
    "xla.flags": "--xla_cpu_max_isa=AVX --xla_dump_to=<path>",
}
OUTSIDE = {
    "PATH": "/bin",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX512",
    "JAX_PLATFORMS": "rocm",
    "PJRT_NPROC": "2",
    "NPROC": "2",
}


def test_flags_threads_and_variables_are_those_of_the_fingerprint():
    made = environment_of(FINGERPRINT, OUTSIDE, threads=None)
    assert made["PATH"] == "/bin"
    assert made["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX"  # what a path was is not known
    assert made["PJRT_NPROC"] == "6" and made["JAX_TRACEBACK_FILTERING"] == "off"
    assert not {"JAX_PLATFORMS", "NPROC", "XLA_DUMP"} & set(made)


def test_threads_that_the_config_pins_are_left_to_it():
    assert "PJRT_NPROC" not in environment_of(FINGERPRINT, OUTSIDE, threads=6)


def test_a_fingerprint_without_threads_names_none():
    assert "PJRT_NPROC" not in environment_of({}, OUTSIDE, threads=None)


@pytest.fixture
def refused(tmp_path, small):
    """What a witness of a run with some config says."""

    def ask(*settings):
        data = canonical_config(load_config(small, settings))
        (tmp_path / "config.json").write_bytes(data)
        witness = Witness(tmp_path, 0, "init", variables=environment_of({}, os.environ, threads=1))
        try:
            return witness.testimony()
        finally:
            witness.close()

    return ask


def test_a_platform_that_is_not_here_is_named(refused):
    with pytest.raises(MachineError, match="cannot be computed here: .*rocm"):
        refused("platform=rocm")


def test_a_process_that_ends_is_named(tmp_path):
    variables = environment_of({}, {"PATH": ""}, threads=None)
    witness = Witness(tmp_path / "nothing", 0, "init", variables=variables)
    try:
        # there is no config to read: the process says so and ends
        with pytest.raises(MachineError, match="cannot be computed here: .*No such file"):
            witness.testimony()
        with pytest.raises(MachineError, match="its process ended with status 0, want an answer"):
            witness.ask(("init", False), "outline", ())
    finally:
        witness.close()


def test_fingerprints_are_plain():
    json.dumps(environment_of(FINGERPRINT, OUTSIDE, threads=None))
