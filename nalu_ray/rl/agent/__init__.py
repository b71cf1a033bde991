"""The agent: network, cores, vision, and its stored form."""
