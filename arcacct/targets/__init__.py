"""What each receiver wants: formats, what it would refuse, how to speak to it. Values in, text out."""
