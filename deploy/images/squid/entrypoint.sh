#!/bin/sh
# Runs squid in the foreground on PROXY_PORT with at most MAX_FILEDESCRIPTORS descriptors, about two per tunnel.
set -eu

refuse() {
    echo "egress-proxy: $1" >&2
    exit 64
}

# between NAME VALUE LOWEST HIGHEST
between() {
    case $2 in
    '' | 0* | *[!0-9]* | ????????*) refuse "$1 is '$2': give a whole number from $3 to $4" ;;
    esac
    if [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
        refuse "$1 is '$2': give a whole number from $3 to $4"
    fi
}

port=${PROXY_PORT:-3128}
descriptors=${MAX_FILEDESCRIPTORS:-4096}
between PROXY_PORT "$port" 1 65535
between MAX_FILEDESCRIPTORS "$descriptors" 64 1048576

limit=$(ulimit -H -n)
if [ "$limit" != unlimited ] && [ "$descriptors" -gt "$limit" ]; then
    echo "egress-proxy: MAX_FILEDESCRIPTORS lowered from $descriptors to $limit, the hard limit of this container" >&2
    descriptors=$limit
fi
# squid sizes its tables by the limit it finds, and a container runtime's can be 2^30.
ulimit -n "$descriptors"

name=${HOSTNAME:-egress-proxy}
case $name in
*[!A-Za-z0-9._-]*) refuse "HOSTNAME is '$name': give letters, digits, '.', '_' and '-'" ;;
esac

config=$(mktemp /tmp/squid.conf.XXXXXX)
cat >"$config" <<END
http_port $port
max_filedescriptors $descriptors
visible_hostname $name
include /etc/squid/egress-proxy.conf
END

# -N: one process, which is this one, so that signals reach it.
exec squid -N -d 1 -f "$config"
