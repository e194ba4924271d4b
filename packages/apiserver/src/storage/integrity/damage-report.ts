import { basename, dirname } from "node:path";
import { StorageError } from "../storage-error.ts";
import type { Inspection, StorageFault } from "./inspection.ts";

/** At most this many faults are listed in an error. */
const maxListed = 10;

/** One line for a fault: file, offset, message. */
export function describeFault({ file, offset, message }: StorageFault): string {
  return offset === undefined ? `${file}: ${message}` : `${file} at offset ${offset}: ${message}`;
}

/** What is intact, in one line. */
export function describeIntact({ database, journal }: Inspection): string {
  const parts: string[] = [];
  if (database === undefined) parts.push("nothing of the database");
  else parts.push(`the database up to revision ${database.position.revision} with ${database.objects} objects`);
  for (const [from, to] of runsOf(journal)) parts.push(`journal revisions ${from} to ${to}`);
  return parts.join(", ");
}

/** The error that keeps a damaged directory from being opened. */
export function damageError(dir: string, inspection: Inspection): StorageError {
  const { faults } = inspection;
  const listed = faults.slice(0, maxListed).map((fault) => `  ${describeFault(fault)}`);
  const more = faults.length > maxListed ? [`  and ${faults.length - maxListed} more`] : [];
  const flag = basename(dir) === "storage" ? ` --data-dir ${dirname(dir)}` : "";
  return new StorageError(
    "Damaged",
    [
      `the storage in ${dir} is damaged; nothing was changed`,
      ...listed,
      ...more,
      `intact: ${describeIntact(inspection)}`,
      `\`keelson storage verify${flag}\` shows details, \`keelson storage repair${flag}\` keeps everything intact, ` +
        `\`keelson storage restore FILE --force${flag}\` returns to a backup`,
    ].join("\n"),
  );
}

/** Contiguous ranges of revisions in the journal. */
function runsOf(journal: Inspection["journal"]): readonly (readonly [number, number])[] {
  const runs: [number, number][] = [];
  for (const { record } of journal) {
    const last = runs.at(-1);
    const { revision } = record.batch.position;
    if (last !== undefined && last[1] === record.base) last[1] = revision;
    else runs.push([record.base + 1, revision]);
  }
  return runs;
}
