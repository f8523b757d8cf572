"""AUDITOR: records posted to its REST API, as its APEL plugin wants them."""
