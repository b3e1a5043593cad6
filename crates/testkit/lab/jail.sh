#!/bin/bash
# jail.sh RUN PORT -- [VAR=VALUE …] COMMAND…
#
# Runs a real coding agent cut off from the world, beside a scripted model on 127.0.0.1:PORT (model.py, RUN/scenario.json).
# It gets network, process and mount namespaces of its own (only `lo` exists), an empty environment, a fresh home in RUN/home and the
# folder RUN/work. The caller's home is covered; of it, RUN and the folders in JAIL_SHOW (by colons) are seen. RUN/etc, if there, is laid
# over /etc. Needs root. Its exit code is the command's.
set -u
RUN=$1 PORT=$2
shift 3
exec unshare --net --mount --pid --fork --kill-child --mount-proc bash -c '
  set -u
  RUN=$1 PORT=$2 HIDE=$3 SHOW=$4
  shift 4
  ip link set lo up || exit 99
  mount --make-rprivate / || exit 99
  IFS=: read -ra shown <<< "$RUN:$SHOW"
  kept=/mnt # covered in this namespace only
  mount -t tmpfs none "$kept" || exit 99
  for at in "${!shown[@]}"; do
    mkdir "$kept/$at" && mount --bind "${shown[$at]}" "$kept/$at" || exit 99
  done
  if [ -d "$HIDE" ] && [ "$HIDE" != / ]; then mount -t tmpfs none "$HIDE" || exit 99; fi
  for at in "${!shown[@]}"; do
    [ -d "${shown[$at]}" ] || { mkdir -p "${shown[$at]}" && mount --bind "$kept/$at" "${shown[$at]}" || exit 99; }
  done
  if [ -d "$RUN/etc" ]; then
    mkdir -p "$RUN/tmp/etc" && cp -a /etc/. "$RUN/tmp/etc/" 2>/dev/null
    cp -a "$RUN/etc/." "$RUN/tmp/etc/" && mount --bind "$RUN/tmp/etc" /etc || exit 99
  fi
  env -i PATH=/usr/bin:/bin /usr/bin/python3 "$RUN/model.py" "$PORT" "$RUN/scenario.json" "$RUN/model.jsonl" >"$RUN/model.log" 2>&1 &
  for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && break; sleep 0.05; done
  cd "$RUN/work" || exit 99
  env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$RUN/home" TMPDIR="$RUN/tmp" LANG=C.UTF-8 TERM=dumb USER=lab SHELL=/bin/bash "$@" </dev/null
' jail "$RUN" "$PORT" "${HOME:-/nonexistent}" "${JAIL_SHOW:-}" "$@"
