#!/usr/bin/env bash
# Run a command in the namespaces that `unshare` has created: set the lab's mark, report readiness, then become the command.
#
#   isolate.sh host|process MARK MOUNTPOINT STATE READY_FD TITLE COMMAND...
#
# The mark is a tmpfs whose source is MARK, by which the lab finds its processes; children inherit it with the mount
# namespace, whatever they do to their environment.
set -eu
kind=$1 mark=$2 at=$3 state=$4 ready=$5 title=$6
shift 6
if [ "$kind" = host ]; then
    mount -t sysfs sysfs /sys  # shows the devices of the network namespace in which it is mounted
    exec {directory}<"$state"  # bash chooses a free descriptor: READY_FD may be any number
    # A /run of its own: named network namespaces, sockets and pid files of Open vSwitch are separate per host.
    mount -t tmpfs -o mode=755 run /run
    mkdir /run/netns /run/openvswitch /run/lock
    if [ ! -d "$state" ]; then  # it is below /run: keep the lab's directory visible
        mkdir -p "$state"
        mount --no-canonicalize --bind /proc/self/fd/$directory "$state"
    fi
    exec {directory}<&-
fi
mount -t tmpfs -o size=4k,mode=500 "$mark" "$at"
echo ready >&"$ready"
exec {ready}>&-
exec -a "$title" "$@"
