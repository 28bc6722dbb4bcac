"""The API server's own count of requests."""

from bench.request_counts import READS, WRITES, describe, parse, total

PAGE = """\
# HELP apiserver_request_total [STABLE] Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="proxies",scope="resource",subresource="",verb="GET",version="v1"} 7
apiserver_request_total{code="200",resource="proxies",scope="resource",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="409",resource="proxies",scope="resource",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",resource="events",scope="resource",subresource="",verb="POST"} 2
apiserver_request_total{code="200",resource="leases",scope="resource",subresource="",verb="PUT"} 99
apiserver_request_duration_seconds_count{resource="proxies",subresource="",verb="GET"} 50
"""


def test_requests_are_counted_by_verb_and_resource_whatever_they_were_answered() -> None:
    assert parse(PAGE) == {("GET", "proxies"): 7, ("PATCH", "proxies/status"): 4, ("POST", "events"): 2}


def test_writes_and_reads_are_told_apart() -> None:
    counts = parse(PAGE)
    assert (total(counts, WRITES), total(counts, READS), total(counts, WRITES, "events")) == (4, 7, 2)
    assert describe(counts) == "7 GET proxies, 4 PATCH proxies/status, 2 POST events"
