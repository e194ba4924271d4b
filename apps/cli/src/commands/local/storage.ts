import { join, resolve } from "node:path";
import {
  backupStorage,
  compactStorage,
  describeFault,
  type LostData,
  repairStorage,
  restoreStorage,
  verifyStorage,
} from "@keelson/apiserver/storage";
import { type FlagValues, formatResult, outputFlag } from "@keelson/operator";
import type { Command } from "commander";
import { addFlag, flagValues } from "../../command-line.ts";
import type { DefineCommand } from "../commands.ts";
import { dataDirFlag } from "./data-dir-flag.ts";

/** Runs on the storage directory `dir` and returns the exit status. */
type Action = (dir: string, args: readonly string[], flags: FlagValues) => Promise<number>;

/**
 * Defines `keelson storage`. Exit statuses: 0 for success, 1 for a failure, 3 if `verify` finds damage or `repair` could not keep
 * everything.
 */
export const defineStorageCommand: DefineCommand = (storage, setExitCode) => {
  const add = (call: string, description: string, act: Action): Command => {
    const command = storage.command(call).description(description);
    addFlag(command, dataDirFlag);
    addFlag(command, outputFlag);
    command.action(async () => {
      const flags = flagValues(command);
      const dir = join(resolve(dataDirFlag.read(flags)), "storage");
      setExitCode(await act(dir, command.args, flags));
    });
    return command;
  };
  add("verify", "check all pages and checksums; exits with 3 if there is damage", verify);
  add("repair", "recover all intact data and list what is lost; the damaged files are set aside", repair);
  add("backup <file>", "write a consistent backup to a file; works while `keelson up` is running", backup);
  addFlag(add("restore <file>", "restore a backup into an empty data directory", restore), {
    name: "force",
    description: "replace existing data, which is set aside",
  });
  add("compact", "return unused space of the database to the file system", compact);
};

/** The exit status for damage. */
const damaged = 3;

const print = (text: string): void => void process.stdout.write(text);

/** Reports progress on a terminal. */
const progress = (verb: string): { onProgress(objects: number): void } => ({
  onProgress(objects) {
    if (process.stderr.isTTY) process.stderr.write(`\r${verb} ${objects} objects`);
  },
});

const endProgress = (): void => {
  if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
};

async function verify(dir: string, _: readonly string[], flags: FlagValues): Promise<number> {
  const report = await verifyStorage(dir);
  print(
    formatResult({ flags }, report, () => {
      const lines = report.isHealthy
        ? [`intact: ${report.objects} objects and ${report.events} events, resourceVersion ${report.revision}`]
        : [
            `damaged: ${report.faults.length} ${report.faults.length === 1 ? "fault" : "faults"}`,
            ...report.faults.map((fault) => `  ${describeFault(fault)}`),
            `intact: ${report.intact}`,
            "run `keelson storage repair` to keep everything intact, or `keelson storage restore FILE --force`",
          ];
      if (report.owner !== undefined) lines.push(`checked by process ${report.owner}, which has the storage open`);
      return `${lines.join("\n")}\n`;
    }),
  );
  return report.isHealthy ? 0 : damaged;
}

async function repair(dir: string, _: readonly string[], flags: FlagValues): Promise<number> {
  const result = await repairStorage(dir, progress("recovered")).finally(endProgress);
  print(
    formatResult({ flags }, result, () => {
      if (!result.isRepaired) return `nothing to repair: ${result.objects} objects, resourceVersion ${result.revision}\n`;
      const lines = [
        ...result.faults.map((fault) => `  ${describeFault(fault)}`),
        `kept ${result.objects} objects; continues at resourceVersion ${result.revision}`,
        ...(result.lost.length === 0
          ? ["nothing is lost"]
          : ["lost:", ...result.lost.map((each) => `  ${describeLost(each)}`)]),
        ...(result.replaced === undefined ? [] : [`the damaged files are in ${result.replaced}`]),
      ];
      return `${lines.join("\n")}\n`;
    }),
  );
  return result.lost.length === 0 ? 0 : damaged;
}

function describeLost({ object, from, to, revisions }: LostData): string {
  if (object !== undefined) return `object ${object}`;
  if (revisions === undefined) return `objects from ${from ?? "the first"} to ${to ?? "the last"}, unless kept`;
  const [first, last] = revisions;
  return first === last ? `the change of resourceVersion ${first}` : `the changes of resourceVersions ${first} to ${last}`;
}

async function backup(dir: string, [file = ""]: readonly string[], flags: FlagValues): Promise<number> {
  const path = resolve(file);
  const result = await backupStorage(dir, path, progress("saved")).finally(endProgress);
  const text = (): string => `${path}: ${result.objects} objects, resourceVersion ${result.revision}\n`;
  print(formatResult({ flags }, { file: path, ...result }, text));
  return 0;
}

async function restore(dir: string, [file = ""]: readonly string[], flags: FlagValues): Promise<number> {
  const options = { force: flags["force"] === true, ...progress("restored") };
  const result = await restoreStorage(dir, resolve(file), options).finally(endProgress);
  print(
    formatResult({ flags }, result, () => {
      const kept = result.replaced === undefined ? "" : `the replaced files are in ${result.replaced}\n`;
      return (
        `restored ${result.objects} objects of resourceVersion ${result.backupRevision}; ` +
        `continues at resourceVersion ${result.revision}\n${kept}`
      );
    }),
  );
  return 0;
}

async function compact(dir: string, _: readonly string[], flags: FlagValues): Promise<number> {
  const result = await compactStorage(dir);
  print(formatResult({ flags }, result, () => `${result.bytesBefore} bytes before, ${result.bytesAfter} after\n`));
  return 0;
}
