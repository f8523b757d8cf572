"""Queries over many CEs, on the files that `arcacct export` writes: DuckDB or Spark, with the SQL of schema/fleet."""
