"""Turns a window of Samples into Findings: the rules, their thresholds, and ``engine.fold``,
which runs them. All functions are pure."""
