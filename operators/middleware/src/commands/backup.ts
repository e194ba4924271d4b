import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { App } from "../api/app.ts";
import { Backup, type BackupSpec } from "../api/backup.ts";
import type { BackupStorage } from "../api/backup-parts.ts";
import { labels } from "../api/names.ts";
import { Restore, type RestoreSpec } from "../api/restore.ts";
import { storageOfApp } from "../controllers/app/app-backup.ts";
import { keyOf, namespaceFlag } from "./app-flags.ts";
import { withErrors } from "./with-errors.ts";
import { waitForEnd } from "./wait-for-end.ts";

const detachFlag = { name: "detach", description: "print the name and return without waiting" };

/** `keelson app backup | backups | restore`. */
export const backupCommands: readonly CommandDefinition[] = [
  {
    name: "backup",
    description: "back up an App from a replica, and wait for completion; by default to the storage of its spec.backup",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "name", value: "BACKUP", description: "name of the Backup; default: the App and the time" },
      { name: "claim", value: "CLAIM", description: "PersistentVolumeClaim to store the data in" },
      { name: "s3", value: "URL", description: "bucket to store the data in: https://HOST/BUCKET[/PREFIX]" },
      { name: "s3-credentials", value: "SECRET", description: "Secret with accessKeyId and secretAccessKey, for --s3" },
      { name: "key-secret", value: "SECRET", description: "Secret whose key `key` encrypts the data" },
      { name: "verify", description: "restore the backup into a scratch App and compare it" },
      { name: "delete-data", description: "delete the data together with the Backup; default: retain it" },
      detachFlag,
    ],
    run: (context) => withErrors(context, takeBackup),
  },
  {
    name: "backups",
    description: "list the backups of an App, or of all Apps of the namespace",
    args: ["[NAME]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, listBackups),
  },
  {
    name: "restore",
    description: "restore a backup into an App, which is created if it does not exist, and wait for completion",
    args: ["[NAME]"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "from", value: "BACKUP", description: "Backup to restore", required: true },
      { name: "latest", description: "recover to the end of the archived log" },
      { name: "to-time", value: "TIME", description: "recover to a time in RFC 3339, with archived log" },
      { name: "to-position", value: "POSITION", description: "recover to a log position, such as an LSN" },
      { name: "overwrite", description: "replace all data of an existing App" },
      { name: "verify", description: "restore into a scratch App, compare it, and delete it; without NAME" },
      detachFlag,
    ],
    run: (context) => withErrors(context, restoreBackup),
  },
];

const text = ({ flags }: CommandContext, name: string): string | undefined => {
  const value = flags[name];
  return typeof value === "string" && value !== "" ? value : undefined;
};

async function takeBackup(context: CommandContext): Promise<number> {
  const { stderr, clock, flags } = context;
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
  const storage = storageOf(context, app);
  if (typeof storage === "string") {
    stderr.write(`${storage}\n`);
    return 2;
  }
  const keySecret = text(context, "key-secret");
  const { encryption } = app.spec.backup ?? {};
  const spec: DeepReadonly<BackupSpec> = {
    app: { name },
    storage,
    ...(keySecret !== undefined ? { encryption: { keySecret: { name: keySecret } } } : encryption ? { encryption } : {}),
    ...(flags.verify === true ? { verify: true } : {}),
    ...(flags["delete-data"] === true ? { deletionPolicy: "Delete" } : {}),
  };
  const stamp = new Date(clock.now()).toISOString().replaceAll(/\D/g, "").slice(0, 14);
  const metadata = { name: text(context, "name") ?? `${name}-${stamp}`, namespace, labels: { [labels.app]: name } };
  const created = await client.create(Backup, { metadata, spec: spec as BackupSpec });
  if (flags.detach === true) return print(context, created, `${created.metadata.name}\n`);
  const ended = await waitForEnd(context, Backup, created);
  if (ended === undefined) return 1;
  return report(context, ended, `${created.metadata.name}: ${ended.status?.message ?? ""}\n`);
}

/** The storage of the flags, or that of the App. A text is an error. */
function storageOf(context: CommandContext, app: DeepReadonly<App>): DeepReadonly<BackupStorage> | string {
  const [claim, url, credentials] = [text(context, "claim"), text(context, "s3"), text(context, "s3-credentials")];
  if (claim !== undefined && url !== undefined) return "--claim and --s3 must not be used together";
  if (claim !== undefined) return { volume: { claimName: claim } };
  if (url === undefined) return storageOfApp(app);
  if (credentials === undefined) return "--s3-credentials: required with --s3";
  const match = /^(https?:\/\/[^/?#]+)\/([a-z0-9][a-z0-9.-]+)(?:\/([^?#]*[^/?#]))?\/?$/.exec(url);
  if (match === null) return `--s3: ${JSON.stringify(url)} must be https://HOST/BUCKET[/PREFIX]`;
  const [, endpoint = "", bucket = "", prefix] = match;
  return { s3: { endpoint, bucket, credentials: { name: credentials }, ...(prefix === undefined ? {} : { prefix }) } };
}

async function listBackups(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const { items } = await client.list(Backup, { namespace });
  const backups = items
    .filter(({ spec }) => name === "" || spec.app.name === name)
    .sort((a, b) => ((a.status?.startedAt ?? "") < (b.status?.startedAt ?? "") ? 1 : -1));
  const rows = backups.map(({ metadata, spec, status }) => [
    metadata.name ?? "",
    spec.app.name,
    status?.phase ?? "Pending",
    String(status?.artifact?.keys ?? ""),
    String(status?.artifact?.storedBytes ?? ""),
    status?.artifact === undefined ? "" : status.artifact.keyId === undefined ? "no" : "yes",
    verifiedOf(status),
    status?.completedAt ?? "",
    status?.phase === "Completed" ? (status.source?.pod ?? "") : (status?.message ?? ""),
  ]);
  const heading = ["BACKUP", "APP", "PHASE", "KEYS", "BYTES", "ENCRYPTED", "VERIFIED", "COMPLETED", "NOTE"];
  return print(context, backups, rows.length === 0 ? "no backups\n" : renderTable([heading, ...rows]));
}

function verifiedOf(status: DeepReadonly<Backup>["status"]): string {
  const value = status?.conditions?.find(({ type }) => type === "Verified")?.status;
  return value === "True" ? "yes" : value === "False" ? "failed" : value === undefined ? "" : "running";
}

async function restoreBackup(context: CommandContext): Promise<number> {
  const { stderr, flags } = context;
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const from = text(context, "from") ?? "";
  const isVerify = flags.verify === true;
  if ((name === "") !== isVerify) {
    stderr.write(isVerify ? "NAME must not be set with --verify\n" : "NAME: required, unless --verify is set\n");
    return 2;
  }
  const target = targetOf(context);
  if (typeof target === "string") {
    stderr.write(`${target}\n`);
    return 2;
  }
  await client.get(Backup, { namespace, name: from });
  const created = await client.create(Restore, {
    // Two Restores may be created in the same millisecond.
    metadata: { generateName: `${from}-`, namespace },
    spec: {
      backup: { name: from },
      ...(isVerify ? { verify: true } : { app: { name } }),
      ...(flags.overwrite === true ? { overwrite: name } : {}),
      ...(target === undefined ? {} : { target }),
    },
  });
  if (flags.detach === true) return print(context, created, `${created.metadata.name}\n`);
  const ended = await waitForEnd(context, Restore, created);
  if (ended === undefined) return 1;
  const hint = ended.status?.message?.includes("spec.overwrite") ? "; or pass --overwrite" : "";
  return report(context, ended, `${created.metadata.name}: ${ended.status?.message ?? ""}${hint}\n`);
}

/** The target of the flags. A text is an error. */
function targetOf(context: CommandContext): RestoreSpec["target"] | string {
  const [time, position] = [text(context, "to-time"), text(context, "to-position")];
  const isLatest = context.flags.latest === true;
  if ([time !== undefined, position !== undefined, isLatest].filter(Boolean).length > 1)
    return "--latest, --to-time and --to-position must not be used together";
  if (time !== undefined) {
    const parsed = Date.parse(time);
    return Number.isNaN(parsed) ? `--to-time: ${JSON.stringify(time)} must be a time such as 2026-01-31T12:00:00Z` : { time };
  }
  if (position !== undefined) return { position };
  return isLatest ? { latest: true } : undefined;
}

function print(context: CommandContext, result: unknown, words: string): number {
  context.stdout.write(formatResult(context, result, () => words));
  return 0;
}

/** Prints an object that has ended. Its phase is the exit code. */
function report(context: CommandContext, object: DeepReadonly<Backup> | DeepReadonly<Restore>, words: string): number {
  print(context, object, words);
  return object.status?.phase === "Completed" ? 0 : 1;
}
