"""Specs at and beyond every bound of the Proxy kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MANAGED: Mapping[str, Any] = {"mode": "Managed", "provider": "local"}
EXTERNAL: Mapping[str, Any] = {"mode": "External", "endpoint": {"host": "203.0.113.7"}}

KIB_128 = 128 * 1024


@dataclass(frozen=True)
class Case:
    """A spec, and the words kubectl must print when it is refused; none when it must be accepted."""

    name: str
    spec: Mapping[str, Any] | None
    refusal: tuple[str, ...] = field(default=())


def managed(**more: Any) -> dict[str, Any]:
    return {**MANAGED, **more}


def external(host: str, **more: Any) -> dict[str, Any]:
    return {"mode": "External", "endpoint": {"host": host, **more}}


def health(**check: Any) -> dict[str, Any]:
    return managed(healthCheck=check)


def ok(name: str, spec: Mapping[str, Any]) -> Case:
    return Case(name, spec)


def no(name: str, spec: Mapping[str, Any] | None, *refusal: str) -> Case:
    return Case(name, spec, refusal)


MODE_AND_PROVIDER = (
    ok("managed", MANAGED),
    ok("external", EXTERNAL),
    no("no-spec", None, "spec: Required value"),
    no("no-mode", {"provider": "local"}, "spec.mode: Required value"),
    no("other-mode", {"mode": "Rented"}, 'spec.mode: Unsupported value: "Rented"'),
    no("managed-without-provider", {"mode": "Managed"}, "provider is required when mode is Managed"),
    no("external-with-provider", {**EXTERNAL, "provider": "local"}, "provider must not be set when mode is External"),
    no("external-without-endpoint", {"mode": "External"}, "endpoint is required when mode is External"),
    no(
        "managed-with-endpoint",
        managed(endpoint={"host": "203.0.113.7"}),
        "endpoint must not be set when mode is Managed",
    ),
    ok("provider-63", managed(provider="p" * 63)),
    no("provider-64", managed(provider="p" * 64), "spec.provider: Too long"),
    *(
        no(f"provider-bad-{number}", managed(provider=value), "spec.provider: ", "provider must be a DNS label")
        for number, value in enumerate(["", "Local", "a_b", "a.b", "-a", "a-", "ä"])
    ),
)

PLACEMENT = tuple(
    case
    for field_name in ("region", "zone", "machineType", "image")
    for case in (
        ok(f"{field_name.lower()}-512", managed(placement={field_name: "x" * 512})),
        no(
            f"{field_name.lower()}-513",
            managed(placement={field_name: "x" * 513}),
            f"spec.placement.{field_name}: Too long",
        ),
    )
)

CLOUD_INIT = (
    ok("inline", managed(cloudInit={"inline": "#cloud-config"})),
    ok("secret-without-key", managed(cloudInit={"secretRef": {"name": "boot"}})),
    ok("secret-with-key", managed(cloudInit={"secretRef": {"name": "boot", "key": "user-data"}})),
    no("cloud-init-empty", managed(cloudInit={}), "exactly one of inline or secretRef"),
    no(
        "cloud-init-both",
        managed(cloudInit={"inline": "#cloud-config", "secretRef": {"name": "boot"}}),
        "exactly one of inline or secretRef",
    ),
    no(
        "secret-without-name", managed(cloudInit={"secretRef": {"key": "a"}}), "spec.cloudInit.secretRef.name: Required"
    ),
    no("secret-name-empty", managed(cloudInit={"secretRef": {"name": ""}}), "spec.cloudInit.secretRef.name"),
    ok("secret-name-253", managed(cloudInit={"secretRef": {"name": "n" * 253}})),
    no("secret-name-254", managed(cloudInit={"secretRef": {"name": "n" * 254}}), "secretRef.name: Too long"),
    ok("secret-key-253", managed(cloudInit={"secretRef": {"name": "boot", "key": "k" * 253}})),
    no(
        "secret-key-254",
        managed(cloudInit={"secretRef": {"name": "boot", "key": "k" * 254}}),
        "secretRef.key: Too long",
    ),
    ok("inline-128-kib", managed(cloudInit={"inline": "x" * KIB_128})),
    no("inline-over-128-kib", managed(cloudInit={"inline": "x" * (KIB_128 + 1)}), "spec.cloudInit.inline: Too long"),
    ok("inline-128-kib-of-umlauts", managed(cloudInit={"inline": "ä" * (KIB_128 // 2)})),
    no(
        "inline-over-128-kib-of-umlauts",
        managed(cloudInit={"inline": "ä" * (KIB_128 // 2) + "x"}),
        "spec.cloudInit.inline: ",
        "inline must be at most 131072 bytes, use secretRef for more",
    ),
)

_LONG_NAME = ".".join(["a" * 63] * 3 + ["b" * 61])
_HOSTS = (
    "proxy.example.com",
    "proxy.example.com.",
    "Proxy.Example.COM",
    "localhost",
    "3com.example",
    "192.0.2.1",
    "2001:db8::1",
    "255.249.199.99",
    "0.0.0.0",
    "::1",
    "::",
    "fe80::",
    "1::2:3:4:5:6:7",
    "1:2:3:4:5:6:7::",
    "::2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:8",
    "1:2::5:6:7:8",
    "FD00:ABCD::ffff",
    "64:ff9b::192.0.2.1",
    "::ffff:192.0.2.1",
    "1:2:3:4:5:6:192.0.2.1",
    "xn--bcher-kva.example",
    "a" * 63 + ".example",
    _LONG_NAME,
)
_NOT_HOSTS = (
    "",
    "http://egress.example.com",
    "proxy.example.com:3128",
    "[2001:db8::1]",
    "fe80::1%eth0",
    "user:password@proxy.example.com",
    "256.0.0.1",
    "192.0.2",
    "192.0.2.1.",
    "192.0.2.1.5",
    "192.0.2.01",
    ":",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "12345::",
    "g::1",
    ":1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:192.0.2.1",
    "::192.0.2.256",
    "::192.0.2.1.",
    "1234",
    "a..b",
    ".example.com",
    "-a.example",
    "a-.example",
    "a b",
    "bücher.example",
    "proxy.example.com\n",
    "a" * 64 + ".example",
)

ENDPOINT = (
    *(ok(f"host-{number}", external(host)) for number, host in enumerate(_HOSTS)),
    *(
        no(f"not-host-{number}", external(host), "spec.endpoint.host: ", "host must be a DNS name, an IPv4 address")
        for number, host in enumerate(_NOT_HOSTS)
    ),
    no("host-254", external(_LONG_NAME + "b"), "spec.endpoint.host: Too long"),
    no("endpoint-without-host", {"mode": "External", "endpoint": {"port": 3128}}, "spec.endpoint.host: Required value"),
)

ATTRIBUTES = (
    ok("attributes-64", managed(attributes={f"k{number}": "v" for number in range(64)})),
    no("attributes-65", managed(attributes={f"k{number}": "v" for number in range(65)}), "spec.attributes: Too many"),
    ok("key-63", managed(attributes={"k" * 63: "v"})),
    no("key-64", managed(attributes={"k" * 64: "v"}), "every key of attributes must be at most 63 bytes"),
    ok("key-62-of-umlauts", managed(attributes={"ä" * 31: "v"})),
    no("key-64-of-umlauts", managed(attributes={"ä" * 32: "v"}), "every key of attributes must be at most 63 bytes"),
    ok("value-255", managed(attributes={"k": "v" * 255})),
    no("value-256", managed(attributes={"k": "v" * 256}), "spec.attributes.k: Too long"),
    ok("value-254-of-umlauts", managed(attributes={"k": "ä" * 127})),
    no(
        "value-256-of-umlauts",
        managed(attributes={"k": "ä" * 128}),
        "every value of attributes must be at most 255 bytes",
    ),
    # 16 pairs of 3 + 253 bytes are exactly 4 KiB.
    ok("attributes-4-kib", managed(attributes={f"k{number:02}": "v" * 253 for number in range(16)})),
    no(
        "attributes-over-4-kib",
        managed(attributes={**{f"k{number:02}": "v" * 253 for number in range(15)}, "k99": "v" * 254}),
        "attributes must be at most 4096 bytes together",
    ),
    no(
        "attributes-over-4-kib-of-umlauts",
        managed(attributes={f"k{number:02}": "ä" * 127 for number in range(16)} | {"m": ""}),
        "attributes must be at most 4096 bytes together",
    ),
    no("attribute-not-a-string", managed(attributes={"k": 1}), "spec.attributes.k: Invalid value"),
)


def bounds(name: str, lowest: int, highest: int, path: str, wrap: Any) -> tuple[Case, ...]:
    return (
        ok(f"{name}-lowest", wrap(lowest)),
        ok(f"{name}-highest", wrap(highest)),
        no(f"{name}-too-low", wrap(lowest - 1), f"{path}: Invalid value: {lowest - 1}"),
        no(f"{name}-too-high", wrap(highest + 1), f"{path}: Invalid value: {highest + 1}"),
        no(f"{name}-not-a-number", wrap("many"), f"{path}: Invalid value"),
    )


NUMBERS = (
    *bounds("port", 1, 65535, "spec.port", lambda value: managed(port=value)),
    *bounds("endpoint-port", 1, 65535, "spec.endpoint.port", lambda value: external("192.0.2.1", port=value)),
    *bounds("max-leases", 0, 10000, "spec.maxLeases", lambda value: managed(maxLeases=value)),
    *bounds("drain", 0, 3600, "spec.drainSeconds", lambda value: managed(drainSeconds=value)),
    ok("max-age-lowest", managed(maxAgeSeconds=60)),
    no("max-age-too-low", managed(maxAgeSeconds=59), "spec.maxAgeSeconds: Invalid value: 59"),
    no("max-age-not-a-number", managed(maxAgeSeconds="old"), "spec.maxAgeSeconds: Invalid value"),
    ok("paused", managed(paused=True)),
    ok("paused-external", {**EXTERNAL, "paused": True}),
    no("paused-not-a-boolean", managed(paused="yes"), "spec.paused: Invalid value"),
    *bounds("interval", 1, 3600, "spec.healthCheck.intervalSeconds", lambda value: health(intervalSeconds=value)),
    *bounds("timeout", 1, 120, "spec.healthCheck.timeoutSeconds", lambda value: health(timeoutSeconds=value)),
    *bounds("failures", 1, 100, "spec.healthCheck.failureThreshold", lambda value: health(failureThreshold=value)),
    *bounds("successes", 1, 100, "spec.healthCheck.successThreshold", lambda value: health(successThreshold=value)),
    *bounds(
        "status-code",
        100,
        599,
        "spec.healthCheck.expectedStatusCodes[0]",
        lambda value: health(expectedStatusCodes=[value]),
    ),
)

_URLS = (
    "http://example.com",
    "https://example.com/path?query=1",
    "HTTPS://example.com:8443/",
    "http://192.0.2.1:8080/",
    "https://[2001:db8::1]/",
)
_NOT_URLS = (
    "",
    "example.com",
    "/generate_204",
    "ftp://example.com/",
    "socks5://example.com/",
    "file:///etc/passwd",
    "https://",
    "https:///path",
    "https://:443/",
    "https://exa mple.com/",
    "https:example.com",
)
_URL_2048 = "https://example.com/".ljust(2048, "x")

HEALTH_CHECK = (
    *(ok(f"url-{number}", health(probeURL=url)) for number, url in enumerate(_URLS)),
    *(
        no(f"not-url-{number}", health(probeURL=url), "probeURL must be an http or https URL with a host")
        for number, url in enumerate(_NOT_URLS)
    ),
    ok("url-2048", health(probeURL=_URL_2048)),
    no("url-2049", health(probeURL=_URL_2048 + "x"), "spec.healthCheck.probeURL: Too long"),
    ok("codes-32", health(expectedStatusCodes=list(range(200, 232)))),
    no("codes-33", health(expectedStatusCodes=list(range(200, 233))), "expectedStatusCodes: Too many"),
    no("codes-none", health(expectedStatusCodes=[]), "spec.healthCheck.expectedStatusCodes"),
)

CASES = (
    *MODE_AND_PROVIDER,
    *PLACEMENT,
    *CLOUD_INIT,
    *ENDPOINT,
    *ATTRIBUTES,
    *NUMBERS,
    *HEALTH_CHECK,
)
