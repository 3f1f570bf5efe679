"""From a window of Samples to Findings: the rules, their thresholds and the fold. Pure."""
