"""APEL: job records, summaries and counts as text or CAR, through the ARGO Messaging Service."""
