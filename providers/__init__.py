"""Backends that make and remove proxy instances, behind one contract."""
