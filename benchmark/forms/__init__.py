"""What people type in: shape only. The rules are the services'."""
