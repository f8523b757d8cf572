"""Sending what was recorded to those who asked for it: batches, the ledger, the floor, delivery."""
