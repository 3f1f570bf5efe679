"""Reads the counters of network links, TCP and RDMA."""
