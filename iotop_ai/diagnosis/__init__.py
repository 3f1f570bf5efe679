"""Turns a window of Samples into Findings, with the rules, their thresholds and the fold. All of it is pure."""
