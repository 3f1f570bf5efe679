"""The commands about the health of disks, and about findings that the user acknowledges."""
