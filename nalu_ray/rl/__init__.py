"""Reinforcement learning on RLlib's new API stack: networks, runners, IMPALA and A3C."""
