"""The pages of scoring."""
