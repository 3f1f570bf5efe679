"""The widgets that all panels are made of."""
