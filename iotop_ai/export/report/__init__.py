"""Collects what happened in a recorded run into one record, and writes that record in several formats."""
