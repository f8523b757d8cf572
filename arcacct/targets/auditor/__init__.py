"""AUDITOR: records posted to its REST API, in the form that its APEL plugin needs."""
