"""What the API server was asked for, by its own count."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from bench import kubectl
from bench.installation import Installation

WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
READS = ("GET", "LIST")
_RESOURCES = ("proxies", "events")
"""What this system writes; the API server's own leases and endpoints do not count."""
_METRIC = "apiserver_request_total"

Counts = Counter[tuple[str, str]]
"""By verb and resource; a subresource is written ``proxies/status``."""


async def request_counts(installation: Installation) -> Counts:
    """Return the requests since the API server's start, whoever made them."""
    return parse(await kubectl.run(installation, "get", "--raw", "/metrics"))


def parse(text: str) -> Counts:
    """Return the counts that a metrics page has."""
    counts: Counts = Counter()
    lines = "\n".join(line for line in text.splitlines() if line.startswith(_METRIC))
    for family in text_string_to_metric_families(f"# TYPE {_METRIC} counter\n{lines}\n"):
        for sample in family.samples:
            resource, subresource = sample.labels.get("resource", ""), sample.labels.get("subresource", "")
            if resource in _RESOURCES:
                full = f"{resource}/{subresource}" if subresource else resource
                counts[sample.labels["verb"], full] += int(sample.value)
    return counts


def total(counts: Counts, verbs: Iterable[str], resource: str = "proxies") -> int:
    """Return how many requests for a resource, its subresources included, had one of these verbs."""
    wanted = tuple(verbs)
    return sum(count for (verb, full), count in counts.items() if verb in wanted and full.partition("/")[0] == resource)


def describe(counts: Counts) -> str:
    """Return one line, the most frequent first."""
    return ", ".join(f"{count} {verb} {resource}" for (verb, resource), count in counts.most_common() if count)
