"""The live screen of this machine or of another machine."""
