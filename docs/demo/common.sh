# What demo scripts share: saying what happens, kubectl, the lease API. To be sourced, with NAMESPACE, API_URL, TOKEN and
# PAGE_URL set.
# shellcheck shell=bash

REQUEST_SECONDS=15
START_SECONDS=20
POLL_SECONDS=0.2

say() { printf '%s\n' "$*"; }

step() { printf '\n==> %s\n' "$*"; }

note() { printf '    %s\n' "$*"; }

fail() {
    printf 'the demo failed: %s\n' "$*" >&2
    exit 1
}

indent() { sed 's/^/    /'; }

# Print a command so that it can be pasted.
command_line() {
    local word line='    $'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=,@%+-]*) line="$line '$word'" ;;
        *) line="$line $word" ;;
        esac
    done
    say "$line"
}

# kubectl in a namespace, each request within a deadline: k NAMESPACE ARGUMENT...
k() {
    local namespace=$1
    shift
    kubectl --namespace "$namespace" --request-timeout="${REQUEST_SECONDS}s" "$@"
}

# Print a kubectl command and what it says, and fail with it: show NAMESPACE ARGUMENT...
show() {
    local namespace=$1
    shift
    command_line kubectl --namespace "$namespace" "$@"
    kubectl --namespace "$namespace" "$@" 2>&1 | indent || fail "\`kubectl $1\` did not succeed; see the lines above"
}

# Print one field of an object, nothing where either is missing: field NAMESPACE KIND NAME PATH
field() { k "$1" get "$2" "$3" --ignore-not-found --output "jsonpath={$4}"; }

# Send a request to the lease API: api METHOD PATH [BODY]. Sets status (000: nobody answered) and answer.
api() {
    local result
    # The token goes through a file descriptor, because everybody can read the arguments of a process.
    result=$(curl --silent --noproxy '*' --max-time "$REQUEST_SECONDS" --request "$1" --data "${3-}" \
        --header 'Content-Type: application/json' \
        --config <(if [ -n "$TOKEN" ]; then printf 'header = "Authorization: Bearer %s"\n' "$TOKEN"; fi) \
        --write-out '\n%{http_code}' "$API_URL$2") || true
    status=${result##*$'\n'}
    answer=${result%$'\n'*}
    answer=${answer%$'\n'}
}

# api, where only one status will do: expect STATUS METHOD PATH [BODY]
expect() {
    local wanted=$1
    shift
    api "$@"
    [ "$status" = "$wanted" ] || fail "$1 $API_URL$2: $wanted was expected, and the answer is $status $answer"
}

# Print a string or number of the answer: value NAME
value() {
    local pattern="\"$1\": ?\"?([^\",}]+)"
    if [[ $answer =~ $pattern ]]; then
        printf '%s' "${BASH_REMATCH[1]}"
    fi
}

check_tools() {
    local tool end=$((SECONDS + START_SECONDS))
    for tool in kubectl curl; do
        command -v "$tool" >/dev/null || fail "$tool is needed and was not found on PATH"
    done
    [[ $TOKEN != *[$'"\\\n']* ]] || fail "TOKEN has a character that no token of the lease API has"
    api GET '/v1/proxies?limit=1'
    # It may be starting at this moment.
    while [[ $status == 000 || $status == 503 ]] && [ "$SECONDS" -lt "$end" ]; do
        sleep "$POLL_SECONDS"
        api GET '/v1/proxies?limit=1'
    done
    case $status in
    200) ;;
    401) fail "the lease API at $API_URL refuses the token: set TOKEN" ;;
    *) fail "the lease API at $API_URL answers $status $answer (000: nobody answers): set API_URL" ;;
    esac
}

# Ask for a lease of one Proxy, whose attribute `demo` fits no other.
ask_for_lease() {
    api POST /v1/leases "{\"selector\": {\"demo\": \"$NAMESPACE/$1\"}, \"target\": \"demo\", \"ttlSeconds\": 300}"
}

# Lease one Proxy: lease NAME. Sets lease_id and proxy_url.
lease() {
    local end=$((SECONDS + REQUEST_SECONDS)) host
    ask_for_lease "$1"
    # What kubectl shows may be a moment ahead of the lease table.
    while [ "$status" != 201 ] && [ "$SECONDS" -lt "$end" ]; do
        sleep "$POLL_SECONDS"
        ask_for_lease "$1"
    done
    [ "$status" = 201 ] || fail "leasing $1: 201 was expected, and the answer is $status $answer"
    lease_id=$(value leaseID)
    host=$(value ip)
    [[ $host != *:* ]] || host="[$host]"
    proxy_url="http://$host:$(value port)"
    note "$1: POST $API_URL/v1/leases -> 201, the proxy $proxy_url"
}

# Fetch the page through a proxy: fetch NAME PROXY_URL
fetch() {
    local page
    # --noproxy '': NO_PROXY in the environment must not lead around the proxy.
    page=$(curl --silent --show-error --fail --max-time "$REQUEST_SECONDS" --noproxy '' --proxy "$2" --proxytunnel \
        "$PAGE_URL" 2>&1) || fail "$PAGE_URL through $1 at $2: $page"
    note "$1: CONNECT, then GET $PAGE_URL ->"
    sed -n '1,3p' <<<"$page" | cut -c 1-100 | indent | indent
}

lease_and_fetch() {
    lease "$1"
    fetch "$1" "$proxy_url"
    expect 204 POST "/v1/leases/$lease_id/report" '{"result": "ok"}'
    expect 204 DELETE "/v1/leases/$lease_id"
    note "$1: reported ok, and released"
}
