#!/usr/bin/env bash
# Does in_vm keep its word about exit status, output, files, time and missing packages?
set -euo pipefail
in_vm=$(dirname "${BASH_SOURCE[0]}")/in_vm
work=$(mktemp -d)
export TMPDIR=$work
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/shared" "$work/other"

# run COMMAND...: leaves $status, $out and $err.
run() {
  status=0
  "$@" >"$work/out" 2>"$work/err" || status=$?
  out=$(<"$work/out") err=$(<"$work/err")
}
# expect WHAT ACTUAL EXPECTED
expect() {
  [ "$2" = "$3" ] ||
    { printf 'runner_test: %s: "%s", not "%s"\nstatus %s\n%s\n%s\n' "$@" "$status" "$out" "$err"; exit 1; }
}

PATH=/nonexistent run /bin/bash "$in_vm" -- true
expect "status without packages" "$status" 77
expect "reason without packages" "${out%%:*}" skipped
run "$in_vm" --devices 3 -- true
expect "status after wrong usage" "$status" 125
run "$in_vm" --prepare
[ "$status" != 77 ] || { echo "$out"; exit 77; }
expect "status of --prepare" "$status" 0

# Words and environment arrive unchanged, a shared folder is written through and no other is, and a
# process left behind does not hold the machine.
# shellcheck disable=SC2016
WORD='a "b"' run "$in_vm" --share "$work/shared" -- bash -c \
  'echo "$1|$WORD"; echo told >&2; setsid sleep 1000 & echo x >"$2/shared/f"; echo x >"$2/other/f"; exit 41' \
  sh "c  d'" "$work"
expect "status of the command" "$status" 41
expect "its output" "$out" "c  d'|a \"b\""
expect "its error output" "$err" told
expect "the shared folder" "$(cat "$work/shared/f")" x
expect "the folder that is not shared" "$(ls "$work/other")" ""

# The end of time, then output before the end, which here a signal brings; neither leaves a machine.
machines() { grep -ls "$work/[t]mp" /proc/[0-9]*/cmdline | wc -l; }
wait_until() { for ((n = 0; n < 1200; n++)); do "$@" && return 0 || sleep 0.1; done; return 1; }
none_left() { [ "$(machines)" = 0 ]; }
run "$in_vm" --timeout 2 -- sleep 1000
expect "status after the time limit" "$status" 124
wait_until none_left || expect "machines after the time limit" "$(machines)" 0
"$in_vm" -- bash -c 'echo early; sleep 1000' >"$work/out" 2>"$work/err" & runner=$!
wait_until grep -q early "$work/out" || expect "early output" "$(<"$work/out")" early
expect "machines while it runs" "$(machines)" 2  # timeout, QEMU
kill "$runner"
run wait "$runner"
expect "status after SIGTERM" "$status" 143
wait_until none_left || expect "machines after SIGTERM" "$(machines)" 0
echo "in_vm keeps its word"
