"""Sending what was recorded to those who asked for it: batches, ledger, safeguard, delivery."""
