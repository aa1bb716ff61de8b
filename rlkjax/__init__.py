"""rlkjax: the learner. PPO whose rollout and training are equal byte for byte, and an audit.

Nothing is imported here, so that a ledger can be read without JAX. Reading order of the main path:
`train` -> `loop` -> `learner` -> `rollout`, `gae`, `ppo`.

    train, verify       the commands (`python -m rlkjax.<verb>`)
    loop                one run: the stages of each iteration, the notary, checkpoints
    learner             the stages as pure functions
    rollout gae ppo     collect and rescore; advantages; loss and update
    policy distribution network, and what its outputs mean
    normalize           running statistics that never overflow
    config types errors records that everything else speaks
    checkpoint          a complete state on disk, atomic
    audit/              the notary: Merkle trees, the ledger, the tap, the verifier
    recompute/          iterations computed again by the reference beside the training
    comparison/         a config under several conditions, each in its own process
    platform/           XLA flags, fingerprint, device choice
    report/             what people see: progress, curves
"""
