"""What the commands share: words, requests, the screen."""
