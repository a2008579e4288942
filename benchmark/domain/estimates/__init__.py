"""What the labels of people say of all responses, alone or with a scorer's, and how many more would do. Pure."""
