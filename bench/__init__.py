"""What the system costs its users in time, measured on the real parts of one machine."""
