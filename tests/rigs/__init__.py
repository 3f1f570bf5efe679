"""Real devices and programs that tests use: slow disks, terminals, servers, virtual machines."""
