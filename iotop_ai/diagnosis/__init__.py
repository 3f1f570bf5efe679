"""Turns a window of Samples into Findings: the rules, their thresholds, and the fold that runs them. All is pure."""
