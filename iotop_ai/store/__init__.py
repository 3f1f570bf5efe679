"""Recordings of Snapshots: their format, their readers and writers, and the last hour in memory."""
