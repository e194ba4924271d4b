/** Exit status of {@link inCgroups} if a cgroup could not be entered: the program has ended, or its cgroup is full. */
export const notEnteredStatus = 125;

const script = `while [ "$1" != -- ]; do echo 0 >"$1" || exit ${notEnteredStatus}; shift; done; shift; exec "$@"`;

/**
 * A command that enters the cgroups with these entry files, see `Program.cgroupEntries`, and executes `command` there. It never executes it
 * elsewhere, and exits with {@link notEnteredStatus} if it cannot enter one.
 */
export function inCgroups(entries: readonly string[], command: readonly [string, ...string[]]): readonly [string, ...string[]] {
  if (entries.length === 0) return command;
  return ["/bin/sh", "-c", script, "keelson-enter", ...entries, "--", ...command];
}
