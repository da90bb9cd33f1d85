"""Tests of runner/board."""
