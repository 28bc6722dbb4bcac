"""Keeps the search attributes of a Proxy's workflow as its status says, where Temporal knows them."""

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from model import search_attributes
    from model.proxy import ProxyStatus


def show(provider: str, status: ProxyStatus) -> None:
    """Set what differs. Only for a workflow whose object was read by a worker that found the attributes registered.

    On a server that does not know them the command would fail the workflow's task until it does.
    """
    shown = workflow.info().typed_search_attributes
    updates: list[SearchAttributeUpdate[str]] = []
    for name, value in search_attributes.values_of(provider, status).items():
        key = SearchAttributeKey.for_keyword(name)
        if shown.get(key, "") != value:
            updates.append(key.value_set(value) if value else key.value_unset())
    if updates:
        workflow.upsert_search_attributes(updates)
