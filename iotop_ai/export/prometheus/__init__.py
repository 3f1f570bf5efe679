"""A Frame as metrics of Prometheus and OpenMetrics, and the server that a scrape asks."""
