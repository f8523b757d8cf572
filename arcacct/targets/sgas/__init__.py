"""SGAS: OGF usage records, posted to the LUTS server."""
