"""The pure core: what a proxy is, what its next step is, who may lease it, and the messages processes exchange.

Nothing here does I/O, reads a clock or knows Temporal, Kubernetes or HTTP.
"""
