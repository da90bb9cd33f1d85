"""Agents: clients of the official SDK against the real server, honest and not."""
