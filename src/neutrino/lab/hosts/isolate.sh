#!/usr/bin/env bash
# Run a command in the namespaces that `unshare` has created: set the lab's mark, then become the command.
#
#   isolate.sh host|process MARK MOUNTPOINT STATE TITLE COMMAND...
#
# The mark is a tmpfs whose source is MARK, by which the lab finds its processes; children inherit it with the mount
# namespace, whatever they do to their environment. It is mounted last: a process with the mark is ready.
set -eu
kind=$1 mark=$2 at=$3 state=$4 title=$5
shift 5
if [ "$kind" = host ]; then
    mount -t sysfs sysfs /sys  # shows the devices of the network namespace in which it is mounted
    exec {directory}<"$state"  # stays open over the mount on /run, below which it may be
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
exec -a "$title" "$@"
