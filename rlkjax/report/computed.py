"""The parts of a page that are computed when it is made; they need JAX, the files alone do not."""

from pathlib import Path

from rlkjax import certificates, checkpoint, launch
from rlkjax.certify import as_mapping
from rlkjax.config import Config
from rlkjax.errors import InputError
from rlkjax.learner import make_stages
from rlkjax.render import trajectory
from rlkjax.report import certificate, episode
from rlkjax.report.facts import Facts
from rlkjax.report.markup import Html
from rlkjax.report.page import Extras


def with_episode(extras: Extras, folder: Path, config: Config, facts: Facts) -> Extras:
    """Plays one episode from the newest checkpoint.

    Args:
      extras: what the page has already.
      folder: the run folder.
      config: of the run.
      facts: the run.

    Returns:
      Extras with the episode and the script that moves it.

    Raises:
      InputError: no checkpoint.
      ConsistencyError: the checkpoint is damaged.
      VimeError: a task without bodies, or an engine that is not installed.
    """
    iteration, manifest = _newest(folder, facts)
    played, scene = trajectory.record(folder, config, iteration, manifest=manifest)
    shown = episode.section(played, scene, iteration)
    return extras._replace(episode=shown, script=episode.viewer())


def with_certificate(extras: Extras, config: Config, facts: Facts) -> Extras:
    """Traces every stage and says what its bits can depend on.

    Args:
      extras: what the page has already.
      config: of the run.
      facts: the run.

    Returns:
      Extras with the certificate.

    Raises:
      VimeError: an engine that is not installed.
    """
    stages = make_stages(config, launch.make_environment(config))
    found = certificates.certify_stages(stages, config.numerics)
    shown: Html = certificate.section(
        {name: as_mapping(each) for name, each in found.items()},
        certificates.digest(found),
        facts.genesis.get("certificate"),
    )
    return extras._replace(certificate=shown)


def _newest(folder: Path, facts: Facts) -> tuple[int, str]:
    """Iteration and manifest of the newest checkpoint that is recorded and there."""
    there = set(checkpoint.available(folder))
    for record in reversed(facts.records.values()):
        if record.get("kind") == "checkpoint" and record.get("iteration") in there:
            return record["iteration"], str(record.get("manifest"))
    raise InputError(
        f"--render: got {folder}, which has no recorded checkpoint, want one to play from; "
        "resume the run to make one"
    )
