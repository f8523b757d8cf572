"""Where jobs come from besides A-REX; no source knows another."""
