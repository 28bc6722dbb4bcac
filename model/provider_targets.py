"""What of a check's verdicts leaves the worker that made them.

A verdict becomes part of a history, of an object and of label values: it is cleaned and bounded before.
"""

from collections.abc import Iterable, Mapping

from model.errors import clean_message, cut, masked_line
from model.provider_check_messages import CheckAnswer
from model.provider_health import TargetHealth

MOST_TARGETS = 200
"""Of one provider. With the limits below this is half a megabyte at worst, a third of what an object holds."""
_MOST_DETAILS = 8
_NAME_BYTES = 253
_WORD_BYTES = 63
_MESSAGE_BYTES = 512
_DETAIL_BYTES = 128
_UNNAMED = "unnamed"


def answer_of(verdicts: Iterable[TargetHealth]) -> CheckAnswer:
    """Return the verdicts as they may be told, in their order; of too many, those that failed are kept first.

    Of several verdicts about one target the worst counts.
    """
    targets: dict[str, TargetHealth] = {}
    for verdict in verdicts:
        target = _cleaned(verdict)
        known = targets.get(target.name)
        if known is None or (known.ready and not target.ready):
            targets[target.name] = target
    # Sorting is stable: within the failed and within the ready the order stays.
    kept = {target.name for target in sorted(targets.values(), key=lambda target: target.ready)[:MOST_TARGETS]}
    left_out = [target for name, target in targets.items() if name not in kept]
    return CheckAnswer(
        implemented=True,
        targets=[target for name, target in targets.items() if name in kept],
        left_out=len(left_out),
        left_out_ready=sum(target.ready for target in left_out),
    )


def _cleaned(target: TargetHealth) -> TargetHealth:
    return TargetHealth(
        name=masked_line(target.name, _NAME_BYTES) or _UNNAMED,
        address=masked_line(target.address, _NAME_BYTES),
        ready=target.ready,
        reason=masked_line(target.reason, _WORD_BYTES),
        message=cut(clean_message(target.message), _MESSAGE_BYTES),
        latency_millis=target.latency_millis,
        details=_details(target.details),
    )


def _details(details: Mapping[str, str]) -> dict[str, str]:
    return dict(_detail(key, value) for key, value in list(details.items())[:_MOST_DETAILS])


def _detail(key: str, value: str) -> tuple[str, str]:
    """Mask a fact as a pair: only its name may tell that it is a secret."""
    name = masked_line(key, _WORD_BYTES)
    return name, masked_line(f"{name}={value}", _WORD_BYTES + 1 + _DETAIL_BYTES).removeprefix(f"{name}=")
