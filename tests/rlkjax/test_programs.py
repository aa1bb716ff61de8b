"""Which compiler options a stage gets."""

import jax
import pytest

from rlkjax import programs
from rlkjax.platform import xla_probe

STAGES = ("init", "rollout", "rescore", "advantages", "update", "evaluate")


@pytest.fixture
def knows_both(monkeypatch, tmp_path):
    """An XLA that has both generators of loops."""
    monkeypatch.setattr(xla_probe, "library", lambda: tmp_path)
    monkeypatch.setattr(xla_probe, "is_known", lambda name: True)


def asked_for(any_code: bool) -> list[str]:
    """The stages that the older generator makes."""
    return [name for name in STAGES if programs._options(name, any_code)]


def test_only_exact_physics_is_made_by_the_older_generator(knows_both):
    assert asked_for(any_code=True) == ["init", "rollout", "evaluate"]
    assert asked_for(any_code=False) == []


def test_an_option_that_xla_may_not_know_is_not_given(knows_both, monkeypatch):
    # XLA refuses to compile with one
    monkeypatch.setattr(xla_probe, "is_known", lambda name: False)
    assert asked_for(any_code=True) == []
    monkeypatch.setattr(xla_probe, "is_known", lambda name: True)
    monkeypatch.setattr(xla_probe, "library", lambda: None)
    assert asked_for(any_code=True) == []


def test_the_installed_xla_takes_the_options():
    for name in STAGES:
        low = jax.jit(lambda x: x * 2).lower(jax.ShapeDtypeStruct((4,), "float32"))
        low.compile(compiler_options=programs._options(name, any_code=True))
