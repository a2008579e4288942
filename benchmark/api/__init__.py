"""Benchmark runs and their boards for programs."""
