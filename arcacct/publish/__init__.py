"""Sending what was recorded to those who asked for it: targets, and how to speak to each."""
