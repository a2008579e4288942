"""Predictions for programs: the same services as the pages and commands, JSON in and out."""
