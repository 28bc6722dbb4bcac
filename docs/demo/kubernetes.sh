#!/usr/bin/env bash
# The life of three proxies that are Pods, on any cluster where the system runs: made, leased, one killed by hand and
# replaced, deleted. Each step says what it did and where to look, and checks it. What it made is removed, also when it
# fails or is interrupted; then the exit code is not 0. See README.md beside this file.
#
# Usage: docs/demo/kubernetes.sh     (needs kubectl and curl, and a route to the Pods' addresses)
#
# Environment, all of it optional:
#   NAMESPACE   where the Proxies are made: itself made and removed where it is missing; it must enforce the level
#               `restricted` where it is there (default: egress-demo)
#   PROVIDER    an entry of type kubernetes in the providers file (default: kubernetes)
#   API_URL     the lease API (default: http://127.0.0.1:8090)
#   TOKEN       its bearer token, where it wants one
#   PAGE_URL    a page to fetch through the proxies (default: https://www.example.com/)
#   PROBE_URL   what the proxies are checked against (default: that of the kind Proxy)
#   WAIT        seconds that one step may take (default: 180)
set -euo pipefail

NAMESPACE=${NAMESPACE:-egress-demo}
PROVIDER=${PROVIDER:-kubernetes}
API_URL=${API_URL:-http://127.0.0.1:8090}
API_URL=${API_URL%/}
TOKEN=${TOKEN:-}
PAGE_URL=${PAGE_URL:-https://www.example.com/}
PROBE_URL=${PROBE_URL:-}
WAIT=${WAIT:-180}
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

NAMES=(kubernetes-demo-1 kubernetes-demo-2 kubernetes-demo-3)
LABEL=demo=egress-proxies-kubernetes
VICTIM=kubernetes-demo-2

made_namespace=
made_proxies=

# A providerID is <namespace>/<Pod>; the providers file may put all Pods into a namespace of their own.
provider_id() {
    local id
    id=$(field "$NAMESPACE" px "$1" .status.providerID) || return
    [[ $id == */* ]] || fail "status.providerID of $1 is '$id': is $PROVIDER a provider of type kubernetes?"
    printf '%s' "$id"
}

# Print the uid of a Pod, nothing where it is gone: pod_uid PROVIDER_ID
pod_uid() { field "${1%/*}" pod "${1#*/}" .metadata.uid; }

level_of() { field default namespace "$1" '.metadata.labels.pod-security\.kubernetes\.io/enforce'; }

make_namespace() {
    local end=$((SECONDS + WAIT))
    k default create --filename - >/dev/null <<END || fail "namespace $NAMESPACE cannot be made; see the line above"
apiVersion: v1
kind: Namespace
metadata:
  name: $NAMESPACE
  labels:
    pod-security.kubernetes.io/enforce: restricted
END
    made_namespace=yes
    # The cluster makes it; Pods are refused before.
    while [ -z "$(field "$NAMESPACE" serviceaccount default .metadata.name)" ]; do
        [ "$SECONDS" -lt "$end" ] || fail "namespace $NAMESPACE got no service account within $WAIT s"
        sleep "$POLL_SECONDS"
    done
}

prepare_namespace() {
    local found level
    found=$(field default namespace "$NAMESPACE" .metadata.name) || fail "the cluster does not answer; see the line above"
    if [ -z "$found" ]; then
        make_namespace
    fi
    level=$(level_of "$NAMESPACE")
    [ "$level" = restricted ] || fail "namespace $NAMESPACE enforces '${level:-nothing}' and not 'restricted': kubectl" \
        "label namespace $NAMESPACE pod-security.kubernetes.io/enforce=restricted, or set another NAMESPACE"
    found=$(k "$NAMESPACE" get px "${NAMES[@]}" --ignore-not-found --output name) ||
        fail "Proxies cannot be listed; see the line above"
    [ -z "$found" ] || fail "namespace $NAMESPACE has Proxies of these names already, delete them or set another" \
        "NAMESPACE:" "${found//$'\n'/ }"
    note "namespace $NAMESPACE${made_namespace:+, made just now,} enforces restricted"
}

manifest() {
    local name
    for name in "${NAMES[@]}"; do
        cat <<END
---
apiVersion: crawl.example.com/v1alpha1
kind: Proxy
metadata:
  name: $name
  labels:
    ${LABEL%=*}: ${LABEL#*=}
spec:
  mode: Managed
  provider: $PROVIDER
  attributes:
    demo: $NAMESPACE/$name
  healthCheck:
    intervalSeconds: 2
END
        if [ -n "$PROBE_URL" ]; then
            printf '    probeURL: %s\n' "$PROBE_URL"
        fi
    done
}

make_proxies() {
    made_proxies=yes
    manifest | k "$NAMESPACE" apply --filename - 2>&1 | indent || fail "a Proxy was not taken; see the lines above"
}

wait_until_ready() {
    show "$NAMESPACE" wait px --selector "$LABEL" --for=condition=Ready "--timeout=${WAIT}s"
    show "$NAMESPACE" get px --selector "$LABEL"
    show "$NAMESPACE" get px --selector "$LABEL" --output \
        'custom-columns=NAME:.metadata.name,PROVIDER_ID:.status.providerID,IP:.status.ip,EXIT_IP:.status.exitIP'
}

# Sets pods (providerIDs) and pod_namespace.
show_pods() {
    local name id level
    pods=()
    for name in "${NAMES[@]}"; do
        id=$(provider_id "$name")
        pods+=("$id")
    done
    pod_namespace=${pods[0]%/*}
    level=$(level_of "$pod_namespace")
    [ "$level" = restricted ] || fail "the Pods' namespace $pod_namespace enforces '${level:-nothing}', not 'restricted'"
    show "$pod_namespace" get pods "${pods[@]#*/}" --output 'custom-columns=POD:.metadata.name,PROXY:'\
'.metadata.annotations.crawl\.example\.com/proxy,IMAGE:.spec.containers[0].image,NODE:.spec.nodeName,UID:.metadata.uid'
}

# Not with --force: an object that was removed by force does not tell whether its processes have ended.
kill_pod() {
    victim_pod=$(provider_id "$VICTIM")
    old_uid=$(pod_uid "$victim_pod")
    [ -n "$old_uid" ] || fail "Pod $victim_pod of $VICTIM is not there"
    lease "$VICTIM"
    held_lease=$lease_id
    show "$pod_namespace" delete pod "${victim_pod#*/}" --now --wait=false
}

# The holder of the lease is the first to notice, and says so.
report_it() {
    local end=$((SECONDS + WAIT))
    while curl --silent --output /dev/null --max-time 5 --noproxy '' --proxy "$proxy_url" --proxytunnel "$PAGE_URL"; do
        [ "$SECONDS" -lt "$end" ] || fail "$proxy_url still serves $WAIT s after its Pod was deleted"
        sleep "$POLL_SECONDS"
    done
    note "$VICTIM: nothing comes through $proxy_url any more"
    expect 204 POST "/v1/leases/$held_lease/report" '{"result": "transport_error"}'
    note "$VICTIM: reported transport_error"
}

check_it_is_refused() {
    local incarnation
    ask_for_lease "$VICTIM"
    if [ "$status" = 201 ]; then
        expect 204 DELETE "/v1/leases/$(value leaseID)"
        incarnation=$(field "$NAMESPACE" px "$VICTIM" .status.incarnation)
        [ -n "$incarnation" ] && [ "$incarnation" != "$old_uid" ] || fail "$VICTIM is handed out although its Pod is gone"
        note "$VICTIM: it has been replaced already, quicker than it could be asked for"
        return
    fi
    [ "$status" = 409 ] && [ "$(value unhealthy)" = 1 ] ||
        fail "leasing $VICTIM: 409 with one unhealthy proxy was expected, and the answer is $status $answer"
    note "$VICTIM: POST $API_URL/v1/leases -> 409 $answer"
}

wait_until_replaced() {
    local end=$((SECONDS + WAIT)) incarnation='' uid
    while [ -z "$incarnation" ] || [ "$incarnation" = "$old_uid" ]; do
        [ "$SECONDS" -lt "$end" ] || fail "$VICTIM got no other Pod within $WAIT s"
        sleep "$POLL_SECONDS"
        incarnation=$(field "$NAMESPACE" px "$VICTIM" .status.incarnation)
    done
    show "$NAMESPACE" wait "px/$VICTIM" --for=condition=Ready "--timeout=${WAIT}s"
    uid=$(pod_uid "$victim_pod")
    [ -n "$uid" ] && [ "$uid" = "$incarnation" ] ||
        fail "the Pod $victim_pod has the uid '$uid', and status.incarnation of $VICTIM is $incarnation"
    note "the Pod $victim_pod had the uid $old_uid and now has $uid"
    show "$NAMESPACE" get px --selector "$LABEL"
}

check_held_lease() {
    expect 409 POST "/v1/leases/$held_lease/renew" '{"ttlSeconds": 300}'
    [ "$(value error)" = lease_revoked ] || fail "the lease on the killed Pod should be revoked, and the answer is $answer"
    note "$VICTIM: renewing the lease on the killed Pod -> 409 lease_revoked"
}

show_the_record() {
    local record
    show "$NAMESPACE" get px "$VICTIM" --output \
        'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason} since {.lastTransitionTime}{"\n"}{end}'
    command_line kubectl --namespace "$NAMESPACE" describe px "$VICTIM"
    record=$(k "$NAMESPACE" describe px "$VICTIM") || fail "$VICTIM cannot be described; see the line above"
    record=$(sed -n '/^Events:/,$p' <<<"$record")
    indent <<<"$record"
    [[ $record =~ (InstanceStopped|InstanceMissing|Replacing|Unhealthy) ]] ||
        fail "no Event of $VICTIM tells that it lost its Pod"
}

delete_proxies() {
    local pod uid began=$SECONDS
    show "$NAMESPACE" delete px --selector "$LABEL" "--timeout=${WAIT}s"
    made_proxies=
    for pod in "${pods[@]}"; do
        uid=$(pod_uid "$pod")
        [ -z "$uid" ] || fail "the Pod $pod outlived its Proxy"
        note "gone: Pod $pod"
    done
    note "that took $((SECONDS - began)) s"
}

# Runs at the end, however that comes, and keeps the exit code.
clean_up() {
    local code=$?
    trap - EXIT
    trap '' INT TERM
    set +e
    if [ -n "$made_proxies" ]; then
        step "removing the Proxies of the demo; this is how they were"
        k "$NAMESPACE" get px --selector "$LABEL" --output 'custom-columns=NAME:.metadata.name,PHASE:.status.phase,'\
'PROVISIONED:.status.conditions[?(@.type=="Provisioned")].message,HEALTHY:.status.conditions[?(@.type=="Healthy")].message' |
            indent
        kubectl --namespace "$NAMESPACE" delete px --selector "$LABEL" "--timeout=${WAIT}s" 2>&1 | indent ||
            say "not removed: Proxies with the label $LABEL in namespace $NAMESPACE; is a worker running?" >&2
    fi
    if [ -n "$made_namespace" ]; then
        kubectl delete namespace "$NAMESPACE" --ignore-not-found "--timeout=${WAIT}s" 2>&1 | indent ||
            say "not removed: namespace $NAMESPACE" >&2
    fi
    exit "$code"
}

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
[[ $WAIT =~ ^[1-9][0-9]*$ ]] || fail "WAIT is '$WAIT': give whole seconds"

step "1. a namespace that enforces the Pod Security level restricted"
check_tools
prepare_namespace

step "2. three Proxies of the provider $PROVIDER"
make_proxies

step "3. waiting until each is Ready: its Pod runs, and a probe came back through it"
wait_until_ready

step "4. the Pods; in status.providerID each Proxy says which is its own, in status.incarnation the Pod's uid"
show_pods

step "5. for each Proxy a lease, a page through it by CONNECT, a report, and the release"
for name in "${NAMES[@]}"; do
    lease_and_fetch "$name"
done

step "6. killing the Pod of $VICTIM by hand, while a lease on it runs"
kill_pod

step "7. $VICTIM fails, and is handed out to nobody"
report_it
check_it_is_refused

step "8. another Pod takes the place, and $VICTIM is Ready again"
wait_until_replaced
check_held_lease
lease_and_fetch "$VICTIM"

step "9. what is on record"
show_the_record

step "10. deleting the Proxies; the finalizer holds each until its Pod is gone"
delete_proxies

say
say "everything was as said"
