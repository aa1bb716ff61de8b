"""rlkjax: the learner. PPO whose rollout and training are equal byte for byte, and an audit.

Nothing is imported here, so that a ledger can be read without JAX. Reading order of the main path:
`train` -> `loop` -> `learner` -> `rollout`, `gae`, `ppo`.

    train, verify, prove, diff, compare, report, doctor, gate, golden, certify
                        the commands (`python -m rlkjax.<verb>`), thin; cli is what they share
    loop                one run: the stages of each iteration, the notary, checkpoints
    launch, run_folder  from a config and a folder to a run that is ready to go
    learner, programs   the stages as pure functions; the same, compiled
    rollout gae ppo update
                        collect and rescore; advantages; loss; what an update does
    policy network distribution formulas
                        network, what its outputs mean, formulas that two versions of JAX agree on
    optimizer shuffle reward normalize metrics evaluate
                        the other parts of an iteration
    config types errors records that everything else speaks
    checkpoint segments complete states and whole rollouts on disk, atomic
    exact/              bits by definition: the transformation, the rules, the reference
    audit/              the notary: Merkle trees, the ledger, the tap; verifier and referee
    recompute/          iterations computed again by the reference beside the training
    replay              a run computed again from its files
    witness/            two runs computed again, each as its files say, for the referee
    operations/         the first operation in which two programs differ
    comparison/         a config under several conditions, each in its own process
    platform/           XLA flags, devices, fingerprint, the doctor's checks
    report/ render/     what people see: progress, curves, the page of a run, a played episode
"""
