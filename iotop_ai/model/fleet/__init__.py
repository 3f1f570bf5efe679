"""Many machines, as a Prometheus server knows them."""
