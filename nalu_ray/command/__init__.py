"""What the commands share: words, requests, the screen, and the networks shown by ``report``."""
