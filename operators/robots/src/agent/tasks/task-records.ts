import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import { openSealedText, sealText, writeFileAtomic } from "@keelson/execution/files";
import { taskUidPattern } from "../../protocol/messages.ts";
import type { HeldTask } from "../held-task.ts";

/** Task records on disk, one file each. An agent resumes from them after it was killed. */
export interface TaskRecords {
  /** Loads every valid record. Damaged ones are moved aside and their uids returned. */
  load(): Promise<{ readonly tasks: readonly HeldTask[]; readonly damaged: readonly string[] }>;
  /** Resolves when the record is on disk. */
  save(task: HeldTask): Promise<void>;
  forget(uid: string): Promise<void>;
}

const phases: readonly unknown[] = ["accepted", "running", "waiting", "ended", "deleting", "gone"];

function parse(text: string, uid: string): HeldTask | undefined {
  const value = parseJsonObject(openSealedText(text) ?? "");
  if (value === undefined) return undefined;
  const isValid =
    value.uid === uid &&
    typeof value.attempt === "number" &&
    typeof value.seq === "number" &&
    typeof value.isAcknowledged === "boolean" &&
    typeof value.changedAt === "number" &&
    phases.includes(value.phase) &&
    (value.phase !== "accepted" || isJsonObject(value.order)) &&
    (value.report === undefined || isJsonObject(value.report));
  // Written atomically by an agent; the fields that decisions depend on are checked above.
  return isValid ? ({ ...value, ticks: 0 } as unknown as HeldTask) : undefined;
}

/** Opens the records in a directory and creates the directory if necessary. */
export async function openTaskRecords(dir: string): Promise<TaskRecords> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const fileOf = (uid: string): string => join(dir, `${uid}.json`);
  return {
    async load() {
      const tasks: HeldTask[] = [];
      const damaged: string[] = [];
      for (const name of await readdir(dir)) {
        const uid = name.replace(/\.json$/, "");
        if (!name.endsWith(".json") || !taskUidPattern.test(uid)) continue;
        // What cannot be read, such as a directory, is damaged too.
        const task = parse(await readFile(join(dir, name), "utf8").catch(() => ""), uid);
        if (task !== undefined) {
          tasks.push(task);
        } else {
          const aside = join(dir, `${name}.damaged`);
          await rm(aside, { recursive: true, force: true });
          await rename(join(dir, name), aside);
          damaged.push(uid);
        }
      }
      return { tasks, damaged };
    },
    save: (task) => writeFileAtomic(fileOf(task.uid), sealText(JSON.stringify(task)), { durable: true }),
    forget: (uid) => rm(fileOf(uid), { force: true }),
  };
}
