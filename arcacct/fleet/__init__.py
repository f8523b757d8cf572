"""Questions to many CEs: of the files that `arcacct export` writes, by DuckDB or Spark, in the SQL of schema/fleet."""
