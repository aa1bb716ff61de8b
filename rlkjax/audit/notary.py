"""The notary: takes a digest of what each side holds, and writes it down before it may be used.

It runs on a thread of its own, on finished host copies, while the device computes the next stage.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rlkjax.audit import ledger, merkle
from rlkjax.audit.journal import Journal
from rlkjax.audit.ledger import Chain
from rlkjax.audit.records import CLAIMS, POLICY, parse
from rlkjax.errors import ConsistencyError

Fields = Mapping[str, np.ndarray]


class Claim(NamedTuple):
    """What a rollout claimed, kept until the update that used it is accepted.

    Attributes:
      fields: the segment's buffers on the host.
      root: Merkle root of all leaves.
      claims_root: Merkle root of the leaves of the claimed fields alone.
      flat: one digest over each whole buffer, to be taken again after its use.
    """

    fields: Fields
    root: str
    claims_root: str
    flat: dict[str, bytes]


def flat_digests(fields: Fields) -> dict[str, bytes]:
    """SHA-256 over the bytes of each whole buffer.

    Args:
      fields: name -> array.

    Returns:
      Name -> 32 bytes.
    """
    return {
        name: hashlib.sha256(merkle.canonical_array(name, array).data).digest()
        for name, array in fields.items()
        if array.size
    }


def state_roots(fields: Fields, sequence: int) -> tuple[str, str]:
    """Merkle roots of a train state, and of the policy inside it.

    Args:
      fields: path -> tensor of the whole train state.
      sequence: iterations finished, which goes into every header.

    Returns:
      64 hex digits for all tensors; 64 hex digits for those below "policy/".
    """
    leaves = dict(zip(sorted(fields), merkle.tensor_leaves(fields, sequence), strict=True))
    policy = [leaf for name, leaf in leaves.items() if name.startswith(POLICY)]
    return merkle.root(list(leaves.values())).hex(), merkle.root(policy).hex()


class Notary:
    """Writes the records of a run, in order; a difference becomes a halt record and an error.

    Attributes:
      chain: where the ledger stands.
    """

    def __init__(self, chain: Chain, journal: Journal, metrics: Journal) -> None:
        """Goes on from a chain.

        Args:
          chain: where the ledger stands; `ledger.EMPTY` for a new run.
          journal: the ledger's file, whose taken lines are those of `chain`.
          metrics: the file of metric lines.
        """
        self.chain = chain
        self._journal = journal
        self._metrics = metrics

    def record(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Appends one record.

        Args:
          kind: kind of the record.
          payload: its own keys; see docs/ledger-format.md.

        Raises:
          ConsistencyError: the file holds another record at this place.
          MachineError: no space.
        """
        chain, line = ledger.append(self.chain, kind, payload)
        self._journal.append(line)
        self.chain = chain

    def rollout(self, iteration: int, fields: Fields, **bound: Any) -> Claim:
        """Records the bytes of a segment, bound to seed, policy and sequence number.

        Args:
          iteration: number of the iteration; also the segment's sequence number.
          fields: name -> [T, ...], every buffer of the segment.
          **bound: `seed`, `policy` (root), `graph` (digest), `nonfinite` (count).

        Returns:
          The claim, which the later stages are held against.
        """
        leaves = merkle.segment_leaves(fields, iteration)
        names = sorted(fields)
        columns = [names.index(name) for name in CLAIMS]
        width = len(names)
        claimed = [
            leaves[row + column] for row in range(0, len(leaves), width) for column in columns
        ]
        claim = Claim(
            fields=fields,
            root=merkle.root(leaves).hex(),
            claims_root=merkle.root(claimed).hex(),
            flat=flat_digests(fields),
        )
        self.record(
            "rollout",
            {
                "iteration": iteration,
                "sequence": iteration,
                "root": claim.root,
                "leaves": len(leaves),
                **bound,
            },
        )
        return claim

    def rescore(self, iteration: int, claim: Claim, fields: Fields, graph: str) -> None:
        """Records the training side's own forward pass, and halts if it is not what was claimed.

        Args:
          iteration: number of the iteration.
          claim: what the rollout claimed.
          fields: the claimed fields, recomputed.
          graph: digest of the policy graph in the rescoring program.

        Raises:
          ConsistencyError: a bit differs; a halt record names it.
        """
        root = merkle.root(merkle.segment_leaves(fields, iteration)).hex()
        if root != claim.claims_root:
            claimed = {name: claim.fields[name] for name in CLAIMS}
            self._halt_at("rescore", iteration, merkle.first_difference(claimed, fields))
        self.record(
            "rescore",
            {
                "iteration": iteration,
                "sequence": iteration,
                "root": root,
                "rollout_root": claim.claims_root,
                "graph": graph,
            },
        )

    def advantages(self, iteration: int, fields: Fields) -> None:
        """Records advantages and returns.

        Args:
          iteration: number of the iteration.
          fields: name -> [T, N].
        """
        root = merkle.root(merkle.segment_leaves(fields, iteration)).hex()
        self.record("advantages", {"iteration": iteration, "root": root})

    def used(self, iteration: int, claim: Claim) -> None:
        """Checks, after the update ran, that the bytes it used are still those that were recorded.

        Args:
          iteration: number of the iteration.
          claim: the recorded segment.

        Raises:
          ConsistencyError: a buffer changed in between; a halt record names it.
        """
        flat = flat_digests(claim.fields)
        for name, digest in claim.flat.items():
            if flat[name] != digest:
                self.halt(
                    iteration,
                    "update",
                    f"buffer {name} changed after it was recorded",
                    buffer=name,
                    expected=digest.hex(),
                    got=flat[name].hex(),
                )

    def update(self, iteration: int, root: str, line: bytes) -> None:
        """Records the new train state, and the metrics line of the iteration.

        Args:
          iteration: number of the iteration.
          root: Merkle root of the new train state.
          line: metrics line without its line end.
        """
        self._measured("update", iteration, root, line)

    def evaluation(self, iteration: int, fields: Fields, line: bytes) -> None:
        """Records an evaluation's episodes, and its metrics line.

        Args:
          iteration: number of the iteration that it follows.
          fields: name -> [E].
          line: metrics line without its line end.
        """
        root = merkle.root(merkle.tensor_leaves(fields, iteration)).hex()
        self._measured("evaluation", iteration, root, line)

    def reference(
        self, iteration: int, *, segment: str, state: str, past: int, line: bytes
    ) -> bool:
        """Records what the reference makes of an iteration, and its metrics line.

        Args:
          iteration: number of the iteration that was recomputed.
          segment: Merkle root of the segment as the reference computes it.
          state: the same of the new train state.
          past: buffers past a threshold.
          line: metrics line without its line end.

        Returns:
          Whether the ledger held the record already, so that a resumed run repeats it.
        """
        repeated = self._journal.pending > 0
        digest = self._metric(line)
        payload = {"iteration": iteration, "segment": segment, "state": state}
        self.record("reference", {**payload, "past": past, "metrics": digest})
        return repeated

    def acknowledge(self, iteration: int, reason: str | None) -> bool:
        """Records that a paused run was told to go on, if it was.

        Args:
          iteration: that the pause is about.
          reason: why it goes on; None if nobody said so now. What the ledger holds comes first.

        Returns:
          Whether the run goes on.
        """
        line = self._journal.upcoming
        if line is not None:
            reason = parse(line).get("reason")
        if reason is None:
            return False
        self.record("acknowledge", {"iteration": iteration, "reason": reason})
        return True

    def _measured(self, kind: str, iteration: int, root: str, line: bytes) -> None:
        digest = self._metric(line)
        self.record(kind, {"iteration": iteration, "root": root, "metrics": digest})

    def _metric(self, line: bytes) -> str:
        """Appends a metrics line; a record never vouches for a line that is not there."""
        self._metrics.append(line)
        return hashlib.sha256(line).hexdigest()

    def halt(self, iteration: int, stage: str, reason: str, **where: Any) -> NoReturn:
        """Records why the run stops, and stops it.

        Args:
          iteration: number of the iteration.
          stage: stage that failed.
          reason: one sentence.
          **where: any of `buffer`, `step`, `environment`, `element`, `expected`, `got`.

        Raises:
          ConsistencyError: always.
        """
        blank = dict.fromkeys(("buffer", "step", "environment", "element", "expected", "got"))
        payload = {"iteration": iteration, "stage": stage, "reason": reason}
        self.record("halt", {**blank, **payload, **where})
        self._journal.fsync()
        place = ", ".join(f"{key} {value}" for key, value in where.items())
        raise ConsistencyError(
            f"halt at iteration {iteration}, stage {stage}: {reason}"
            + (f" ({place})" if place else "")
            + "; nothing of this iteration counts, the last checkpoint stays good"
        )

    def _halt_at(
        self, stage: str, iteration: int, difference: merkle.Difference | None
    ) -> NoReturn:
        if difference is None:
            self.halt(iteration, stage, "the roots differ though the buffers are equal")
        environment, *element = difference.index
        self.halt(
            iteration,
            stage,
            "the training side's forward pass is not what the rollout claimed",
            buffer=difference.field,
            step=difference.step,
            environment=environment,
            element=list(element),
            expected=difference.expected,
            got=difference.got,
        )
