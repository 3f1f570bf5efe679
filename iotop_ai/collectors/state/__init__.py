"""Files in the state folder."""
