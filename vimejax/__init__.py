"""vimejax: the world. Pure environment steps, and the one definition of bytes.

Nothing is imported here, so that each room can be read on its own:

    types      an environment as a pair of pure functions; timesteps and specs
    keys       the whole key schedule: (seed, environment, episode, step, purpose)
    codec      canonical bytes of a tree of arrays, and back (NumPy only)
    restart    new episodes in some of many environments
    wrap       environment -> environment, and environment -> endless stream of episodes
    tasks/     one file a task, written for this package
    engines/   the only files that import a physics engine
    registry   name -> task
    errors     the exceptions raised here
"""
