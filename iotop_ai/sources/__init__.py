"""Sources of Snapshots: the live machine, recordings, and logs of other tools."""
