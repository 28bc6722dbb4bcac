"""The probe through the proxy itself, and the loop that repeats it."""
