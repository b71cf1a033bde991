"""The agent: network, cores, vision, and what is stored of it."""
