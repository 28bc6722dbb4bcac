"""Turns what happens to Proxies and their Secrets into pokes of their workflows."""
