#!/usr/bin/env bash
# Runs a cluster on this machine, for service managers and container images.
#
#   deploy/launch.sh CLUSTER.yaml              start it and stay until SIGTERM (systemd: Type=simple, KillMode=mixed)
#   deploy/launch.sh CLUSTER.yaml --detach     start it in the background
#   deploy/launch.sh down [CLUSTER.yaml]       end it
#   deploy/launch.sh status                    look at it
#   deploy/launch.sh scheduler SCHEDULER.yaml  run one more scheduler of a cluster that runs elsewhere, its standby
#
# It only finds the program: `omniflow up` and `omniflow down` do the work, and take the same options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ -n ${OMNIFLOW:-} ]]; then
    omniflow=$OMNIFLOW
elif [[ -x $root/.venv/bin/omniflow ]]; then
    omniflow=$root/.venv/bin/omniflow
elif ! omniflow=$(command -v omniflow); then
    echo "launch.sh: no omniflow found; run make in $root, or set OMNIFLOW to the program" >&2
    exit 2
fi

case ${1:-} in
    "" | -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
        [[ -n ${1:-} ]] || exit 2
        ;;
    scheduler)
        [[ $# -ge 2 ]] || { echo "launch.sh: name the scheduler's file: launch.sh scheduler SCHEDULER.yaml" >&2; exit 2; }
        exec "$(dirname "$(readlink -f "$omniflow")")/python" -m omniflow_scheduler --config "${@:2}"
        ;;
    *.yaml | *.yml | *.json) exec "$omniflow" up "$@" ;;
    *) exec "$omniflow" "$@" ;;
esac
