"""From presets to finished trials."""
