"""The ways in which an alert leaves the machine, and the thread that they run on."""
