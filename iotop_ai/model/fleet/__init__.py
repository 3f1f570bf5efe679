"""Machines and jobs as a Prometheus server reports them."""
