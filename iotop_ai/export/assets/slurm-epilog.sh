#!/bin/sh
# Slurm: Epilog=/etc/slurm/iotop-ai/slurm-epilog.sh. Ends the job's recording and writes what the job lost, in one line.
# Written by: iotop-ai assets install all /etc/slurm/iotop-ai
# The work runs in the background, and the script always exits 0: Slurm waits for an epilog, and drains a node whose
# epilog fails.
set -u
umask 077
dir=${IOTOP_AI_SLURM_DIR:-/var/lib/iotop-ai/slurm}
# If all nodes of a job share this folder, one line covers them all.
shared=${IOTOP_AI_SLURM_SHARED:-$dir}

job=${SLURM_JOB_ID:-}
case $job in '' | *[!0-9]*) exit 0 ;; esac
file=$dir/job-$job.iotop.jsonl
# The recorder of a job that failed at once has not made its file yet.
[ -f "$file" ] || [ -f "$dir/job-$job.pid" ] || exit 0
if [ "${1:-}" != now ]; then
    setsid "$0" now </dev/null >/dev/null 2>>"$dir/job-$job.log" &
    exit 0
fi

# By now the pid may belong to a process that is not the recorder.
pid=$(cat "$dir/job-$job.pid" 2>/dev/null)
# If the job is requeued, its prolog may write the next pid while this script waits for the recorder.
rm -f -- "$dir/job-$job.pid"
case $pid in
'' | *[!0-9]*) ;;
*)
    if tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -e "$file"; then
        kill -TERM "$pid"
        turns=0
        while [ -d "/proc/$pid" ] && [ "$turns" -lt 200 ]; do
            sleep 0.1
            turns=$((turns + 1))
        done
    fi
    ;;
esac

mine=$shared/job-$job.$(uname -n).json
# nice 19 would leave 1.5 % of a core if the next job uses all cores, so half a second of work would take a minute.
nice -n 10 @PROGRAM@ report "$file" --json >"$mine.part" && mv -f -- "$mine.part" "$mine" || rm -f -- "$mine.part"
line=$(@PYTHON@ -I -S "$(dirname "$0")/slurm_line.py" "$job" "$shared/job-$job".*.json) || exit 0
printf '%s\n' "$line" >"$shared/job-$job.txt"
logger -t iotop-ai -- "$line" 2>/dev/null
if [ "${IOTOP_AI_SLURM_COMMENT:-}" = 1 ]; then # sacct -o JobID,AdminComment shows the line
    scontrol update "JobId=$job" "AdminComment=$line" >/dev/null 2>&1
fi
exit 0
