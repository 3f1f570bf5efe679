"""A fleet of machines for a real Prometheus: recordings of real trainings, which one small exporter replays."""
