import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { once } from "node:events";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { renderTable } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { type FileInfo, FileType } from "@keelson/sandbox/protocol";
import { type Connection, connectionFlags, runWith } from "./connection.ts";
import { printable } from "./printable.ts";

/** A file of a sandbox. */
interface SandboxPath {
  readonly sandboxName: string;
  readonly namespace: string;
  readonly path: string;
}

/** The parts of `NAME:PATH`; undefined for a path of this machine. */
function parseLocation(text: string, namespace: string): SandboxPath | undefined {
  const match = /^([a-z0-9][-a-z0-9.]*):(.+)$/.exec(text);
  return match === null ? undefined : { sandboxName: match[1] ?? "", namespace, path: match[2] ?? "" };
}

/** The arguments NAME PATH of a command. */
const target = ({ args }: CommandContext, { namespace }: Connection): SandboxPath => ({
  sandboxName: args[0] ?? "",
  namespace,
  path: args[1] ?? ".",
});

async function listFiles({ files }: Connection, path: SandboxPath, signal: AbortSignal): Promise<readonly FileInfo[]> {
  const entries: FileInfo[] = [];
  for await (const message of files.list(path, { signal })) entries.push(...message.entries);
  return entries;
}

const kinds: Partial<Record<FileType, string>> = { [FileType.FILE]: "-", [FileType.DIRECTORY]: "d", [FileType.SYMLINK]: "l" };

function row({ type, mode, sizeBytes, modifiedMs, name, target: link }: FileInfo): readonly string[] {
  const time = new Date(Number(modifiedMs)).toISOString().slice(0, 19).replace("T", " ");
  const text = printable(link === "" ? name : `${name} -> ${link}`);
  return [`${kinds[type] ?? "?"}${mode.toString(8).padStart(4, "0")}`, String(sizeBytes), time, text];
}

const ls: CommandDefinition = {
  name: "ls",
  description: "list the files of a sandbox: keelson sandbox ls NAME /work",
  args: ["NAME", "[PATH]"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async (connection) => {
      const entries = await listFiles(connection, target(context, connection), context.signal);
      if (entries.length > 0) context.stdout.write(renderTable(entries.map((entry) => [...row(entry)])));
      return 0;
    }),
};

const cat: CommandDefinition = {
  name: "cat",
  description: "print a file of a sandbox",
  args: ["NAME", "PATH"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async (connection) => {
      for await (const { data } of connection.files.read(target(context, connection), { signal: context.signal })) {
        if (!context.stdout.write(data)) await once(context.stdout, "drain");
      }
      return 0;
    }),
};

const rmCommand: CommandDefinition = {
  name: "rm",
  description: "remove a file of a sandbox",
  args: ["NAME", "PATH"],
  flags: [...connectionFlags, { name: "recursive", short: "r", description: "remove a directory and what is in it" }],
  run: (context) =>
    runWith(context, async (connection) => {
      const recursive = context.flags.recursive === true;
      await connection.files.remove({ ...target(context, connection), recursive }, { signal: context.signal });
      return 0;
    }),
};

const cp: CommandDefinition = {
  name: "cp",
  description: "copy files and directories to or from a sandbox: keelson sandbox cp data.csv NAME:/work/data.csv",
  args: ["SOURCE", "TARGET"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async (connection) => {
      const [source = "", destination = ""] = context.args;
      const [from, to] = [source, destination].map((text) => parseLocation(text, connection.namespace));
      if ((from === undefined) === (to === undefined))
        throw new UsageError("either SOURCE or TARGET must be NAME:PATH, as in: cp NAME:/work/out.txt out.txt");
      const copy = new Copy(connection, context);
      if (from !== undefined) await copy.download(from, await intoFolder(destination, from.path));
      else if (to !== undefined) await copy.upload(source, to);
      return 0;
    }),
};

/** A copy into an existing local directory keeps the name. */
async function intoFolder(local: string, path: string): Promise<string> {
  const isFolder = (await stat(local).catch(() => undefined))?.isDirectory() ?? false;
  return isFolder ? join(local, basename(path)) : local;
}

class Copy {
  readonly #connection: Connection;
  readonly #context: CommandContext;

  constructor(connection: Connection, context: CommandContext) {
    this.#connection = connection;
    this.#context = context;
  }

  /** Copies a file or directory of the sandbox. Links and other files in a directory are skipped: they could lead out of `local`. */
  async download(path: SandboxPath, local: string): Promise<void> {
    const { files } = this.#connection;
    const { signal } = this.#context;
    const info = await files.stat(path, { signal });
    if (info.type === FileType.DIRECTORY) return this.#downloadFolder(path, local);
    if (info.type !== FileType.FILE) throw new UsageError(`${path.path}: must be a file or a directory`);
    // A new file is renamed at the end: a link at `local` is replaced, not followed.
    const fresh = `${local}.keelson-${process.pid}`;
    try {
      const stream = createWriteStream(fresh, { flags: "wx", mode: info.mode & 0o755 });
      await once(stream, "open");
      for await (const { data } of files.read(path, { signal })) if (!stream.write(data)) await once(stream, "drain");
      stream.end();
      await once(stream, "close");
      await rename(fresh, local);
    } catch (error) {
      await rm(fresh, { force: true });
      throw error;
    }
  }

  async #downloadFolder(path: SandboxPath, local: string): Promise<void> {
    await mkdir(local).catch(async (error: unknown) => {
      const handle = await open(local, "r").catch(() => undefined);
      const isFolder = (await handle?.stat())?.isDirectory() ?? false;
      await handle?.close();
      if (!isFolder) throw error;
    });
    for (const { name, type } of await listFiles(this.#connection, path, this.#context.signal)) {
      const isPlain = type === FileType.FILE || type === FileType.DIRECTORY;
      // The agent names the entries; only names within this directory are accepted.
      if (isPlain && isEntryName(name)) await this.download({ ...path, path: `${path.path}/${name}` }, join(local, name));
      else this.#context.stderr.write(`skipped ${printable(`${path.path}/${name}`)}: not a file or directory\n`);
    }
  }

  /** Copies a local file or directory. Links in a directory are followed. */
  async upload(local: string, path: SandboxPath): Promise<void> {
    const { files } = this.#connection;
    const { signal } = this.#context;
    const found = await stat(local).catch((error: unknown) => {
      throw new UsageError(`SOURCE: ${error instanceof Error ? error.message : String(error)}`);
    });
    if (found.isDirectory()) {
      await files.makeDirectory(path, { signal });
      for (const name of await readdir(local)) await this.upload(join(local, name), { ...path, path: `${path.path}/${name}` });
      return;
    }
    const start = { ...path, mode: found.mode & 0o777 };
    async function* requests() {
      yield { request: { case: "start" as const, value: start } };
      for await (const data of createReadStream(local) as AsyncIterable<Buffer>)
        yield { request: { case: "data" as const, value: data } };
      yield { request: { case: "commit" as const, value: true } };
    }
    await files.write(requests(), { signal });
  }
}

const isEntryName = (name: string): boolean => name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name);

/** `keelson sandbox ls`, `cat`, `rm` and `cp`. */
export const fileCommands: readonly CommandDefinition[] = [ls, cat, rmCommand, cp];
