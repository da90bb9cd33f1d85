"""What others read while bench runs: the report, served on request; figures for Prometheus."""
