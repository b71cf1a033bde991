"""RLlib's side: runner, learner, module, configuration."""
