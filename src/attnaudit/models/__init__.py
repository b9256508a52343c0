"""Models: encoders × attention × heads, and translators; built from settings and stored without pickle. `presets` needs no torch."""
