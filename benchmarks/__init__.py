"""Measurements that anyone can run again; docs/performance.md keeps what they showed."""
