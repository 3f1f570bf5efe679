"""Steps through recordings, without a screen."""
