"""Whether leases stay exact while everything is killed: ``python -m bench.torture``."""
