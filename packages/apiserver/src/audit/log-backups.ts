import { access, readdir, rm } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import type { AuditLogFile } from "./audit-log.ts";

const dayMs = 24 * 60 * 60 * 1000;

/** The name of a rotated log, as kube-apiserver names it: `audit-2026-01-31T12-00-00.000.log` for `audit.log`. */
export async function backupPath(path: string, now: number): Promise<string> {
  for (let time = now; ; time++) {
    const candidate = join(dirname(path), `${prefixOf(path)}${timestamp(time)}${extname(path)}`);
    try {
      await access(candidate);
    } catch {
      return candidate;
    }
  }
}

/** Deletes rotated logs that are too old or too many. */
export async function pruneBackups({ path, maxBackups, maxAge }: AuditLogFile, now: number): Promise<void> {
  if (maxBackups === 0 && maxAge === 0) return;
  const directory = dirname(path);
  const backups = (await readdir(directory))
    .flatMap((name) => {
      const time = timeOf(path, name);
      return time === undefined ? [] : [{ name, time }];
    })
    .sort((a, b) => b.time - a.time);
  const isExcess = ({ time }: { readonly time: number }, index: number): boolean =>
    (maxBackups > 0 && index >= maxBackups) || (maxAge > 0 && now - time > maxAge * dayMs);
  await Promise.all(backups.filter(isExcess).map(({ name }) => rm(join(directory, name), { force: true })));
}

function prefixOf(path: string): string {
  return `${basename(path, extname(path))}-`;
}

function timestamp(time: number): string {
  return new Date(time).toISOString().slice(0, -1).replaceAll(":", "-");
}

/** The time in the name of a rotated log; undefined for other files. */
function timeOf(path: string, name: string): number | undefined {
  const [prefix, suffix] = [prefixOf(path), extname(path)];
  if (!name.startsWith(prefix) || !name.endsWith(suffix)) return undefined;
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d\.\d{3})$/.exec(name.slice(prefix.length, name.length - suffix.length));
  return match === null ? undefined : Date.parse(`${match[1]}T${match[2]}:${match[3]}:${match[4]}Z`);
}
