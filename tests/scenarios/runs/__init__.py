"""Short recorded runs of one trainer, to compare: another disk, more workers, another loader."""
