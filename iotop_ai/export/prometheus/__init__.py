"""A Frame as metrics for Prometheus and OpenMetrics, and the server that is scraped."""
