"""Requests and answers as httpx has them, for both clients."""

import httpx

from egress_proxies_client._wire import Call, Reply


def request_of(client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
    """Return a call as a request of this client."""
    headers = dict(call.headers)
    if call.content is not None:
        headers["Content-Type"] = "application/json"
    return client.build_request(call.method, call.path, params=call.params, content=call.content, headers=headers)


def reply_of(response: httpx.Response) -> Reply:
    """Return an answer that has been read."""
    return Reply(status=response.status_code, headers=dict(response.headers), body=response.content)
