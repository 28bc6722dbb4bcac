"""The flags of the commands; every flag has an environment variable ``EGRESS_PROXIES_<FLAG>``."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from model.durations import format_duration, parse_duration

PREFIX = "EGRESS_PROXIES_"


class DurationType(click.ParamType[timedelta]):
    """A duration as Go writes it.

    Args:
        at_least: The shortest one that is taken.
        or_zero: Whether zero is taken all the same.
    """

    name = "duration"

    def __init__(self, at_least: timedelta = timedelta(), *, or_zero: bool = False) -> None:
        self._at_least = at_least
        self._or_zero = or_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with a message that shows how to write one."""
        if isinstance(value, timedelta):
            return value
        try:
            duration = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if duration < self._at_least and not (self._or_zero and not duration):
            self.fail(f"{value} is too short; the least is {format_duration(self._at_least)}", param, ctx)
        return duration


DURATION = DurationType()
INTERVAL = DurationType(at_least=timedelta(seconds=1))
INTERVAL_OR_OFF = DurationType(at_least=timedelta(seconds=1), or_zero=True)


def flag(name: str, *parameter: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option with its environment variable; both are shown in the help."""
    default = attributes.get("default")
    if isinstance(default, timedelta):
        attributes["default"] = format_duration(default)
    variable = PREFIX + name.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(name, *parameter, envvar=variable, show_envvar=True, show_default=True, **attributes)


def flags(*decorators: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return one decorator for several options, shown in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


COMMON = flags(
    flag(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubernetes credentials; without it the Pod's service account, then KUBECONFIG.",
    ),
    flag("--proxy-namespace", default="", help="Only Proxies of this namespace; empty means all."),
    flag(
        "--installation",
        default="",
        help="Name of this installation, 1-63 of a-z, 0-9 and '-'; empty means the uid of the namespace kube-system. "
        "Instances of other installations are never touched.",
    ),
    flag("--metrics-bind-address", default="0", help="Where /metrics is served, for instance :8080; 0 means nowhere."),
    flag(
        "--health-probe-bind-address", default=":8081", help="Where /healthz and /readyz are served; 0 means nowhere."
    ),
    flag("--log-format", type=click.Choice(["json", "text"]), help="Default: text on a terminal, json elsewhere."),
)

PROVIDERS_CONFIG = flag(
    "--providers-config",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The providers file (YAML). It is read again when it changes.",
)

DRIFT_CHECK_INTERVAL = flag(
    "--drift-check-interval",
    type=INTERVAL,
    default=timedelta(minutes=2),
    help="How often the providers' instances are compared with the Proxies.",
)

COLLECTION = flags(
    flag(
        "--gc-interval",
        type=INTERVAL_OR_OFF,
        default=timedelta(minutes=10),
        help="How often instances without a Proxy are looked for; 0 means never.",
    ),
    flag(
        "--gc-min-age",
        type=DURATION,
        default=timedelta(minutes=10),
        help="Younger instances are spared, with a margin of as much again (5m at most) for clocks that differ.",
    ),
    flag(
        "--gc-max-deletes",
        type=click.IntRange(1, 100),
        default=10,
        help="The most instances that one sweep deletes.",
    ),
    flag("--gc-dry-run", is_flag=True, help="Only tell, in the sweep's result, what would be deleted."),
    flag(
        "--gc-collect-unmarked",
        is_flag=True,
        help="Collect instances without an installation mark too; dangerous where a backend is shared.",
    ),
)

GC_ALLOW_NAMESPACED = flag(
    "--gc-allow-namespaced",
    is_flag=True,
    help="Collect although --proxy-namespace is set. Dangerous: instances of other namespaces' Proxies are deleted.",
)

PROVIDER_CHECK = flags(
    flag(
        "--provider-check-interval",
        type=DURATION,
        default=timedelta(minutes=1),
        help="How often the providers' backends are checked, at least 10s; 0 means never.",
    ),
    flag(
        "--provider-check-timeout",
        type=DURATION,
        default=timedelta(),
        help="Time for the check of one provider, at most the interval; 0 means 15s, or a shorter interval.",
    ),
)

WORKER = flags(
    flag(
        "--task-queue",
        "task_queues",
        multiple=True,
        help="Serve only this Temporal task queue; may be given more than once. Default: all of this installation.",
    ),
    DRIFT_CHECK_INTERVAL,
    COLLECTION,
    GC_ALLOW_NAMESPACED,
    PROVIDER_CHECK,
    flag(
        "--max-proxies-per-worker",
        type=click.IntRange(1, 100_000),
        default=2000,
        help="How many proxies this worker probes.",
    ),
    flag(
        "--deployment-name",
        default="",
        help="Name of the Temporal worker deployment that the queues with workflows belong to; empty means none. "
        "A version gets work once somebody sets it as the current one.",
    ),
    flag("--build-id", default="", help="Version of this worker in its deployment, for instance the image's tag."),
    flag(
        "--no-target-check",
        is_flag=True,
        help="Blame the proxy without asking the probe's target directly; for workers without a way out of their own.",
    ),
)

WATCHER = flags(
    flag(
        "--relist-interval", type=INTERVAL, default=timedelta(minutes=10), help="How often all Proxies are listed anew."
    ),
)

API_ADDRESS = flag("--discovery-addr", default=":8090", help="Where the lease API listens.")
DEV_API_ADDRESS = flag("--discovery-addr", default="127.0.0.1:8090", help="Where the lease API listens.")
API = flags(
    flag("--lease-cooldown", type=DURATION, default=timedelta(minutes=15), help="How long a reported proxy rests."),
    flag("--max-lease-ttl", type=INTERVAL, default=timedelta(hours=1), help="The longest lease."),
    flag(
        "--allow-unauthenticated",
        is_flag=True,
        help="Serve beyond loopback without a token (DISCOVERY_TOKEN in the environment).",
    ),
)
