"""Short recorded runs of one trainer that can be compared: with another disk, more workers, or another loader."""
