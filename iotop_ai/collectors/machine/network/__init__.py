"""Network links, TCP and RDMA."""
