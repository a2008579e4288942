"""The annotation loop for programs: the same services as the pages, JSON in and out."""
