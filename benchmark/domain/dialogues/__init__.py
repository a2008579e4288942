"""Dialogues between an agent, which plays a role card, and the model under test. Pure."""
