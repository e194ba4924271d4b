import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/** A file or directory to mount at an absolute path of a container. */
export interface Mount {
  readonly source: string;
  readonly path: string;
  readonly readOnly: boolean;
}

/** Facts about the machine that {@link mountScript} depends on. */
export interface HostPaths {
  /** The canonical path; `undefined` if it does not exist. */
  resolve(path: string): string | undefined;
  isFile(path: string): boolean;
}

/** The facts of this machine. */
export const hostPaths: HostPaths = {
  resolve: (path) => (existsSync(path) ? realpathSync(path) : undefined),
  isFile: (path) => existsSync(path) && statSync(path).isFile(),
};

/** Options of {@link mountScript}. */
export interface MountScriptOptions {
  readonly mounts: readonly Mount[];
  /** An empty directory of the container's own, on which auxiliary mounts are made. */
  readonly scratch: string;
  /** A file that receives a line once everything is mounted and the program is about to run. */
  readonly marker: string;
  readonly user?: string;
  readonly host: HostPaths;
}

/**
 * The command that runs a program with its own mounts, through the file of a {@link mountScript}. Variables with names that shells drop
 * pass through `env`.
 */
export function mountedCommand(options: {
  /** The file with the script. Passed as a file, so that `ps` shows its name and the program. */
  readonly script: string;
  readonly cwd: string;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}): readonly [string, ...string[]] {
  const { script, cwd, command } = options;
  const odd = Object.entries(options.env)
    .filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    .map(([name, value]) => `${name}=${value}`);
  return ["unshare", "--mount", "--propagation", "private", "/bin/sh", script, cwd, ...odd, ...command];
}

/**
 * Builds the script that mounts volumes and then executes the program. Volumes appear at their absolute `mountPath`, in a private mount
 * namespace (`unshare -m`), so this requires permission to mount. If `mountPath` exists on the machine, the volume is bound over it. If
 * not, the machine's files stay unchanged: the nearest existing directory becomes an overlay private to the program, and for a path directly
 * below `/` the program's root is rebuilt from bind mounts of the machine's top-level directories. All of it disappears with the namespace.
 *
 * The user changes after the mounts (`chroot --userspec`).
 */
export function mountScript(options: MountScriptOptions): string {
  const { host, scratch } = options;
  const mounts = [...options.mounts].sort((a, b) => a.path.split("/").length - b.path.split("/").length);
  // Opened before a mount can hide it.
  const lines = [
    "set -e",
    `exec 9> ${quote(options.marker)}`,
    `mount -t tmpfs -o mode=0755 tmpfs ${quote(scratch)}`,
    `cd ${quote(scratch)}`,
  ];
  // Bound before a mount can hide the sources.
  for (const [index, mount] of mounts.entries()) {
    lines.push(host.isFile(mount.source) ? `: > m${index}` : `mkdir m${index}`);
    lines.push(`mount --rbind ${quote(mount.source)} m${index}`);
  }
  const targets: string[] = [];
  const shadows = new Set<string>();
  for (const mount of mounts) {
    const { target, shadow } = mountTarget(mount.path, host);
    targets.push(target);
    const isInsideOther = targets.slice(0, -1).some((other) => target.startsWith(`${other}/`));
    if (shadow !== undefined && !isInsideOther) shadows.add(shadow);
  }
  const hasRoot = shadows.delete("/");
  const root = hasRoot ? "root" : "";
  if (hasRoot) {
    lines.push("mkdir root", "mount -t tmpfs -o mode=0755 tmpfs root");
    lines.push(
      'for entry in /* /.[!.]*; do [ -e "$entry" ] || [ -L "$entry" ] || continue; name=${entry#/}; ' +
        'if [ -L "$entry" ]; then cp -P "$entry" "root/$name"; ' +
        'elif [ -d "$entry" ]; then mkdir "root/$name"; mount --rbind "$entry" "root/$name"; ' +
        'else : > "root/$name"; mount --bind "$entry" "root/$name"; fi; done',
    );
  }
  for (const [index, shadow] of [...shadows].sort().entries()) {
    lines.push(`mkdir o${index} o${index}/u o${index}/w`);
    const paths = `lowerdir=${overlayPath(shadow)},upperdir=${overlayPath(`${scratch}/o${index}/u`)},workdir=${overlayPath(`${scratch}/o${index}/w`)}`;
    lines.push(`mount -t overlay -o ${quote(paths)} overlay ${quote(`${root}${shadow}`)}`);
  }
  for (const [index, mount] of mounts.entries()) {
    const target = `${root}${targets[index] ?? mount.path}`;
    const make = host.isFile(mount.source)
      ? `mkdir -p ${quote(dirname(target))}; : >> ${quote(target)}`
      : `mkdir -p ${quote(target)}`;
    lines.push(`[ -e ${quote(target)} ] || { ${make}; }`);
    // Relative and not canonicalized: at this point the absolute path of the source may lead elsewhere.
    lines.push(`mount --no-canonicalize --rbind m${index} ${quote(target)}`);
    if (mount.readOnly) lines.push(`mount -o remount,bind,ro ${quote(target)}`);
  }
  const userspec = options.user === undefined ? "" : ` --userspec=${quote(options.user)} --groups=`;
  lines.push(
    `cwd=$1; shift; echo ready >&9; exec 9>&- chroot${userspec} ${hasRoot ? "root" : "/"} /usr/bin/env -C "$cwd" -- "$@"`,
  );
  return lines.join("\n");
}

/** The target of a mount with links resolved, and the directory to overlay if the target does not exist. */
function mountTarget(path: string, host: HostPaths): { readonly target: string; readonly shadow?: string } {
  const resolved = host.resolve(path);
  if (resolved !== undefined) return { target: resolved };
  for (let ancestor = dirname(path); ; ancestor = dirname(ancestor)) {
    const real = host.resolve(ancestor);
    if (real !== undefined) {
      const rest = path.slice(ancestor === "/" ? 1 : ancestor.length + 1);
      return { target: join(real, rest), shadow: real };
    }
  }
}

/** Escapes a path for the options of an overlay, where commas and colons separate. */
function overlayPath(path: string): string {
  return path.replaceAll(/[\\,:]/g, "\\$&");
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
