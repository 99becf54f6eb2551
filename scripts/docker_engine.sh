#!/bin/sh
# usage: docker_engine.sh COMMAND...
#
# Runs COMMAND where a Docker engine answers, and fails where none can be had. One that runs already is used. Else, as
# root on Debian or Ubuntu, the engine is installed and started for the command alone, with its data in
# $WARPLAB_ENGINE or a folder that is removed afterwards. WARPLAB_BASE is then the base of the images: the one named, or
# Debian as debootstrap makes it, for no registry may be in reach.
set -u
PATH=$PATH:/usr/sbin:/sbin  # where daemons lie; not every root shell looks there

fail() {
    printf 'docker_engine: %s\n' "$*" >&2
    exit 1
}

install() {
    command -v "$1" >/dev/null 2>&1 && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || fail "$1 is not installed: install it, or run this as root."
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null 2>&1 &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1; } ||
        fail "$2 could not be installed."
}

end() {
    [ -z "${engine:-}" ] && return
    kill "$engine" 2>/dev/null
    wait "$engine" 2>/dev/null
    [ -n "${made:-}" ] || return
    # The engine leaves its network namespace mounted.
    awk -v place="$made/" 'index($2, place) == 1 { print $2 }' /proc/mounts | while read -r mounted; do
        umount -l "$mounted"
    done
    rm -rf "$made"
}

[ $# -gt 0 ] || fail "name a command to run."
checkout=$(cd "$(dirname "$0")/.." && pwd)
install docker docker.io
docker compose version >/dev/null 2>&1 || install docker-compose docker-compose

if ! docker info >/dev/null 2>&1; then
    install dockerd docker.io
    [ "$(id -u)" = 0 ] || fail "no Docker engine answers: start one, or run this as root."
    place=${WARPLAB_ENGINE:-}
    [ -n "$place" ] || made=$(mktemp -d) && place=${place:-$made}
    mkdir -p "$place"
    DOCKER_HOST=unix://$place/docker.sock
    export DOCKER_HOST
    if ! docker info >/dev/null 2>&1; then
        dockerd --data-root "$place/data" --exec-root "$place/exec" --pidfile "$place/pid" -H "$DOCKER_HOST" \
            >"$place/log" 2>&1 &
        engine=$!
        trap end EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
        waited=0
        until docker info >/dev/null 2>&1; do
            kill -0 "$engine" 2>/dev/null || fail "the engine did not start: $(tail -n 1 "$place/log")"
            [ "$waited" -lt 60 ] || fail "the engine does not answer: see $place/log."
            waited=$((waited + 1))
            sleep 1
        done
    fi
fi

if [ -z "${WARPLAB_BASE:-}" ]; then
    WARPLAB_BASE=warplab-debian
    if ! docker image inspect "$WARPLAB_BASE" >/dev/null 2>&1; then
        install debootstrap debootstrap
        root=$(mktemp -d)
        debootstrap --variant=minbase bookworm "$root" >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -n 1 "$root.log")"
        tar -C "$root" -c . | docker import - "$WARPLAB_BASE" >/dev/null || fail "the base image could not be imported."
        rm -rf "$root" "$root.log"
    fi
fi
export WARPLAB_BASE
# A network with an authority of its own: its certificates are trusted while packages are fetched (docker/Dockerfile).
if [ -n "${SSL_CERT_FILE:-}" ] && [ ! -e "$checkout/docker/certificates/host.crt" ]; then
    cp "$SSL_CERT_FILE" "$checkout/docker/certificates/host.crt"
fi

"$@"
