"""What a job is to accounting: written and read in one way, whatever it came from; monthly usage."""
