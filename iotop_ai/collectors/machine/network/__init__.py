"""Collects network links, TCP and RDMA."""
