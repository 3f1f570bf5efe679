"""The parts of the machine other than disks, processes and GPUs."""
