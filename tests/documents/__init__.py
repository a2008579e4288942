"""What documents say of how something was done, and the stored facts that they need to say it."""
