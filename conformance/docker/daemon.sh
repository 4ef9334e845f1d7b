#!/usr/bin/env bash
# daemon.sh [stop]: starts a Docker daemon of its own on a Debian machine, as root, when none answers; installs Debian's
# docker.io and iptables when they are missing. Its state is in ${FLOE_DOCKER:-target/docker}; `stop` ends it and removes that.
set -euo pipefail
state=${FLOE_DOCKER:-$(cd "$(dirname "$0")/../.." && pwd)/target/docker}
export PATH=$PATH:/usr/sbin:/sbin
pid() { cat "$state/dockerd.pid" 2>/dev/null; }
if [ "${1:-}" = stop ]; then
  p=$(pid) || exit 0
  kill "$p" 2>/dev/null || true
  for _ in $(seq 100); do kill -0 "$p" 2>/dev/null || break; sleep 0.2; done
  # its namespaces and its data folder stay mounted
  awk -v s="$state/" 'index($2, s) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do umount "$m" || true; done
  rm -rf "$state"
  exit 0
fi
if command -v docker >/dev/null && timeout 20 docker info >/dev/null 2>&1; then echo "a Docker daemon answers"; exit 0; fi
[ "$(id -u)" = 0 ] || { echo "no Docker daemon answers, and only root can start one" >&2; exit 1; }
mkdir -p "$state"
if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends docker.io iptables; } \
    >"$state/apt.log" 2>&1 || { echo "docker.io cannot be installed:" >&2; tail -n 3 "$state/apt.log" >&2; exit 1; }
fi
setsid dockerd --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/dockerd.pid" \
  >"$state/dockerd.log" 2>&1 </dev/null &
for _ in $(seq 150); do
  if docker info >/dev/null 2>&1; then echo "dockerd started, process $(pid)"; exit 0; fi
  sleep 0.2
done
echo "dockerd did not answer within 30 s:" >&2
tail -n 5 "$state/dockerd.log" >&2
exit 1
