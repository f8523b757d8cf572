"""Values in, text out: the formats of the receivers, without any input or output."""
