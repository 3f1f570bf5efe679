#!/bin/sh
# Slurm: Prolog=/etc/slurm/iotop-ai/slurm-prolog.sh. Begins a recording of this node for the job.
# Written by: iotop-ai assets install all /etc/slurm/iotop-ai
# It always exits 0, because Slurm drains a node whose prolog fails.
set -u
umask 077
dir=${IOTOP_AI_SLURM_DIR:-/var/lib/iotop-ai/slurm}
days=${IOTOP_AI_SLURM_DAYS:-14}

job=${SLURM_JOB_ID:-}
case $job in '' | *[!0-9]*) exit 0 ;; esac
mkdir -p -- "$dir" || exit 0
# The file with the recorder's pid is as old as its job, whose epilog needs it.
find "$dir" -maxdepth 1 -type f -name 'job-*' ! -name '*.pid' -mtime "+$days" -delete

file=$dir/job-$job.iotop.jsonl
# setsid keeps the recording alive after the prolog ends. A requeued job appends to its file.
setsid @PROGRAM@ record -d 5 --append -o "$file" --alerts none </dev/null >>"$dir/job-$job.log" 2>&1 &
echo "$!" >"$dir/job-$job.pid"
exit 0
