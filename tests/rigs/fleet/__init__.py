"""A fleet of machines for a real Prometheus: recordings of real training, replayed by one small exporter."""
