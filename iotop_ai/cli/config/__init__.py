"""Settings: their table, the settings file, the environment."""
