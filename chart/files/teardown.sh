# Removes the cGPU kernel module from a node, or looks whether one is loaded.
#
#   gpushare-teardown uninstall             the module's files are gone; the next boot is without it
#   gpushare-teardown uninstall sentinel    and the file is left that kured watches
#   gpushare-teardown verify                no module is loaded
#
# Runs on the node itself, in the namespaces of its process 1, and takes no values: whoever could
# write here would be root on every node. May run any number of times. Exit status 1 needs manual steps
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

# The Job that this is a pod of, by the container's own hostname: a pod that follows one which the
# reboot killed must not ask for another reboot.
job="${HOSTNAME:-}"
job="${job%-*}"

is_loaded() {
  [ ! -e "$instances" ] || return 0
  [ -r "$root/proc/modules" ] || fail "cannot read /proc/modules: the loaded modules are unknown"
  while read -r module _; do
    case "$module" in cgpu_km | cgpu_procfs | km) return 0 ;; esac
  done <"$root/proc/modules"
  return 1
}

leave_sentinel() {
  if [ "$1" = sentinel ]; then
    touch "$root/var/run/reboot-required" || fail "cannot write /var/run/reboot-required"
    say "created /var/run/reboot-required"
  fi
}

# The runtime is stopped by a unit of the node's: with Docker, this very process ends with it.
hand_over() {
  umask 077
  mkdir -p "$state" || fail "cannot create $state: remove the module manually"
  # Another pod's unit may be reading the script: it is replaced, not written to.
  cat >"$state/unit.sh.$job" <<'UNIT' || fail "cannot write $state/unit.sh.$job"
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
# Whatever becomes of the rest, the node has its runtime again.
# shellcheck disable=SC2064
trap "systemctl start $runtime" EXIT
trap 'exit 1' HUP INT TERM
# shellcheck disable=SC2086
systemctl stop $runtime || exit 1
timeout -k 30 900 bash "$root/usr/local/cgpu-installer/uninstall.sh"
status=$?
echo "the uninstaller exited with $status; starting$runtime"
trap - EXIT
# shellcheck disable=SC2086
systemctl start $runtime || exit 1
[ "$status" -eq 0 ] || exit 1
read -r boot <"$root/proc/sys/kernel/random/boot_id" || exit 1
echo "$boot $2" >"$state/uninstalled.new" || exit 1
mv "$state/uninstalled.new" "$state/uninstalled"
if [ "$1" = sentinel ]; then touch "$root/var/run/reboot-required"; fi
UNIT
  mv "$state/unit.sh.$job" "$state/unit.sh" || fail "cannot write $state/unit.sh"
  rm -f "$state/uninstalled" || fail "cannot remove $state/uninstalled"
  systemd-run --quiet --collect --unit="$unit" /bin/sh "$state/unit.sh" "$1" "$job" && return
  # Another pod may have started it a moment ago.
  systemctl is-active --quiet "$unit" && return
  read_removal
  [ "$removed_in" = "$boot" ] || fail "systemd-run could not start the unit $unit"
}

# In which boot the module was removed, and by which Job; nothing where it never was.
read_removal() {
  removed_in= removed_by=
  [ ! -r "$state/uninstalled" ] || read -r removed_in removed_by <"$state/uninstalled"
}

# Whether an installer came again after another teardown of this boot: removed or not, the module
# stays loaded until the reboot.
is_put_back() { [ "$removed_by" != "$job" ] && [ -e "$uninstaller" ] && is_loaded; }

uninstall() {
  read -r boot <"$root/proc/sys/kernel/random/boot_id" || fail "cannot read the id of this boot"
  read_removal
  if ! systemctl is-active --quiet "$unit"; then
    if [ "$removed_in" = "$boot" ] && ! is_put_back; then
      say "the module was already removed in this boot"
      leave_sentinel "$1"
      exit 0
    fi
    if [ -n "$job" ] && [ "$removed_by" = "$job" ]; then
      ! is_loaded || fail "the module was loaded again after the reboot"
      say "the module was removed in an earlier boot"
      exit 0
    fi
    if ! is_loaded; then
      say "no module is loaded"
      leave_sentinel "$1"
      exit 0
    fi
    for each in "$instances"/[0-9]*/*/; do
      [ ! -d "$each" ] || fail "a container uses the cGPU instance $each: end it first"
    done
    [ -e "$uninstaller" ] || fail "$uninstaller does not exist (as on nodes with containerd or" \
      "ContainerOS): remove the module manually, or replace the node"
    command -v systemd-run >/dev/null || fail "systemd-run not found: remove the module manually"
    hand_over "$1"
  fi
  while systemctl is-active --quiet "$unit"; do sleep 1; done
  cat "$state/log"
  read_removal
  [ "$removed_in" = "$boot" ] ||
    fail "the module was not removed. Check the log above, and on the node: journalctl --unit=$unit"
  say "module removed; it stays loaded until the node reboots"
}

case "${1:-}" in
uninstall) uninstall "${2:-}" ;;
verify)
  if is_loaded; then fail "cGPU module is loaded"; fi
  say "no cGPU module is loaded"
  ;;
*) fail "expected uninstall, uninstall sentinel or verify, got: $*" ;;
esac
