"""Steps through a recording; knows no screen."""
