"""Writes. An action is one function: a transaction, the change, the audit row, the message on commit."""
