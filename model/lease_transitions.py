"""From what is known of a Proxy to what the lease broker is told."""

from model import names, proxy_facts
from model.lease_index import DELETING
from model.lease_operations import PRIMING_ORDER, Gone, ProxyView, Transition
from model.messages import BrokerTell, LeasingView
from model.proxy import Proxy


def operation_of(tell: BrokerTell) -> Transition | Gone:
    """Return the operation for one transition of a proxy."""
    reference = tell.reference
    proxy_id = names.proxy_id(reference.namespace, reference.name)
    order = (tell.order[0], tell.order[1])
    if tell.view is None:
        return Gone(proxy_id, reference.uid, order)
    return Transition(proxy_id, reference.uid, order, _view(tell.view))


def priming_transition(proxy: Proxy) -> Transition:
    """Return what a Proxy's status says; anything its workflow has told is newer."""
    view = proxy_facts.view_of(proxy, proxy.status, proxy.status.incarnation)
    return Transition(proxy.id, proxy.uid, PRIMING_ORDER, _view(view))


def _view(view: LeasingView) -> ProxyView:
    return ProxyView(
        ip=view.ip,
        port=view.port,
        attributes=view.attributes,
        phase=DELETING if view.deleting else view.phase,
        healthy=view.healthy,
        latency_millis=view.latency_millis,
        max_leases=view.max_leases,
        leasable=view.leasable,
        instance=view.instance,
        drain_ends_at=view.drain_ends_at,
    )
