"""Served while bench runs: the report, figures for Prometheus."""
