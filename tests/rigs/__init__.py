"""Real devices and programs for tests: slow disks, terminals, servers, virtual machines."""
