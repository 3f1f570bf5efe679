"""Settings: their table, the settings file, and the environment variables."""
