"""The HTTP API that crawlers lease proxies with."""
