# Removes the cGPU kernel module from a node, or looks whether one is loaded.
#
#   gpushare-teardown uninstall             the module's files are gone; the next boot is without it
#   gpushare-teardown uninstall sentinel    and the file is left that kured watches
#   gpushare-teardown verify                no module is loaded
#
# Runs on the node itself, in the namespaces of its process 1, and takes no values: whoever could
# write here would be root on every node. May run any number of times. Exit status 1 needs a person
# and is not tried again; one that was killed, as with the container runtime, is.
#
# Order and uninstaller: vendor's page on upgrading the cGPU version on a node.

set -u
PATH="${PATH:-/usr/bin:/bin}:/usr/sbin:/sbin:/usr/bin:/bin"
root="${TEARDOWN_ROOT:-}" # for tests
unit=gpushare-teardown
state="$root/var/lib/gpushare-teardown"
instances="$root/proc/cgpu_km"
uninstaller="$root/usr/local/cgpu-installer/uninstall.sh"

say() { echo "gpushare-teardown: $*"; }

fail() {
  say "$*" >&2
  exit 1
}

is_loaded() {
  [ -e "$instances" ] || grep -Eqs '^(cgpu_km|cgpu_procfs|km) ' "$root/proc/modules"
}

leave_sentinel() {
  if [ "$1" = sentinel ]; then
    touch "$root/var/run/reboot-required" || fail "/var/run/reboot-required can't be written"
    say "left /var/run/reboot-required"
  fi
}

# The runtime is stopped by a unit of the node's: with Docker, this very process ends with it.
hand_over() {
  umask 077
  mkdir -p "$state" || fail "$state can't be made: remove the module by hand"
  cat >"$state/unit.sh" <<'UNIT' || fail "$state/unit.sh can't be written"
set -u
root="${TEARDOWN_ROOT:-}"
state="$root/var/lib/gpushare-teardown"
exec >"$state/log" 2>&1
runtime=
for each in docker.socket docker containerd; do
  # Docker's own containerd goes on, as on the vendor's page.
  if [ "$each" = containerd ] && [ -n "$runtime" ]; then continue; fi
  if systemctl is-active --quiet "$each"; then runtime="$runtime $each"; fi
done
[ -n "$runtime" ] || { echo "neither docker nor containerd is active"; exit 1; }
echo "stopping$runtime"
# shellcheck disable=SC2086
systemctl stop $runtime || { systemctl start $runtime; exit 1; }
bash "$root/usr/local/cgpu-installer/uninstall.sh"
status=$?
echo "the uninstaller ended with $status; starting$runtime"
# shellcheck disable=SC2086
systemctl start $runtime || exit 1
[ "$status" -eq 0 ] || exit 1
cat "$root/proc/sys/kernel/random/boot_id" >"$state/uninstalled.new" || exit 1
mv "$state/uninstalled.new" "$state/uninstalled"
if [ "$1" = sentinel ]; then touch "$root/var/run/reboot-required"; fi
UNIT
  rm -f "$state/log"
  systemd-run --quiet --collect --unit="$unit" /bin/sh "$state/unit.sh" "$1" ||
    fail "systemd-run could not start the unit $unit"
}

uninstall() {
  boot="$(cat "$root/proc/sys/kernel/random/boot_id")" || fail "this boot's id can't be read"
  removed="$(cat "$state/uninstalled" 2>/dev/null)"
  if ! systemctl is-active --quiet "$unit"; then
    if [ "$removed" = "$boot" ]; then
      say "the module was removed in this boot"
      leave_sentinel "$1"
      exit 0
    fi
    if ! is_loaded; then
      say "no module is loaded"
      # Removed in an earlier boot: the reboot has been, and none is asked for again.
      [ -n "$removed" ] || leave_sentinel "$1"
      exit 0
    fi
    for each in "$instances"/[0-9]*/*/; do
      [ ! -d "$each" ] || fail "a container has the cGPU instance $each: end it first"
    done
    [ -e "$uninstaller" ] || fail "$uninstaller is not there (as on nodes with containerd or" \
      "ContainerOS): a person must remove the module, or replace the node"
    command -v systemd-run >/dev/null || fail "systemd-run is not there: remove the module by hand"
    hand_over "$1"
  fi
  while systemctl is-active --quiet "$unit"; do sleep 1; done
  cat "$state/log"
  [ "$(cat "$state/uninstalled" 2>/dev/null)" = "$boot" ] ||
    fail "the module was not removed; see above, and journalctl --unit=$unit on the node"
  say "removed; it stays loaded until the node reboots"
}

case "${1:-}" in
uninstall) uninstall "${2:-}" ;;
verify)
  if is_loaded; then fail "cGPU module is loaded"; fi
  say "no cGPU module is loaded"
  ;;
*) fail "expected uninstall, uninstall sentinel or verify, got: $*" ;;
esac
