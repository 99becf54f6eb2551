#!/bin/sh
# usage: slurm_node.sh COMMAND...
#
# Runs COMMAND where a Slurm cluster of this one machine takes jobs, and fails where none can be had. As root on Debian or
# Ubuntu, Slurm and munge are installed and started for the command alone, with all that they keep in a folder that is
# removed afterwards. SLURM_CONF names their configuration.
set -u
PATH=$PATH:/usr/sbin:/sbin  # where daemons lie; not every root shell looks there

fail() {
    printf 'slurm_node: %s\n' "$*" >&2
    exit 1
}

end() {
    for pid in ${started:-}; do
        kill "$pid" 2>/dev/null
    done
    wait
    [ -n "${place:-}" ] && rm -rf "$place"
}

[ $# -gt 0 ] || fail "name a command to run."
[ "$(id -u)" = 0 ] || fail "slurmd starts jobs as other users: run this as root."
for program in slurmctld slurmd sbatch munged; do
    command -v "$program" >/dev/null 2>&1 && continue
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null 2>&1 &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null 2>&1; } ||
        fail "$program is missing and slurm-wlm could not be installed."
done

place=$(mktemp -d)
chmod 755 "$place"
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$place/munge" "$place/state" "$place/spool"
head -c 1024 /dev/urandom >"$place/munge/key"
chmod 400 "$place/munge/key"
chown -R munge:munge "$place/munge"
chown munge:munge "$place/munge/key"
su -s /bin/sh munge -c "exec munged --foreground --force --key-file=$place/munge/key --socket=$place/munge/socket \
    --log-file=$place/munge/log --pid-file=$place/munge/pid --seed-file=$place/munge/seed" >"$place/munged.out" 2>&1 &
started=$!

name=$(hostname -s)
processors=$(nproc)
memory=$(($(awk '/MemTotal/ { print $2 }' /proc/meminfo) / 1024 - 512))
cat >"$place/slurm.conf" <<END
ClusterName=warplab
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SlurmdTimeout=60
NodeName=$name NodeAddr=127.0.0.1 CPUs=$processors RealMemory=$memory State=UNKNOWN
PartitionName=labs Nodes=$name Default=YES MaxTime=60 State=UP
END
export SLURM_CONF="$place/slurm.conf"
slurmctld -D >"$place/slurmctld.out" 2>&1 &
started="$started $!"
slurmd -D -N "$name" >"$place/slurmd.out" 2>&1 &
started="$started $!"
waited=0
until sinfo -h -o %T 2>/dev/null | grep -qx idle; do
    [ "$waited" -lt 30 ] || fail "the cluster does not come up: $(tail -qn 2 "$place"/*.out "$place"/*.log "$place"/munge/log 2>/dev/null | tr '\n' ' ')"
    waited=$((waited + 1))
    sleep 1
done

"$@"
