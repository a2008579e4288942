"""What the pages of scoring take in."""
