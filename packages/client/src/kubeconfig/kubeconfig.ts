import { isJsonObject } from "@keelson/api-machinery";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** A kubeconfig is invalid or missing. The message contains the file and the field. */
export class KubeconfigError extends Error {
  override readonly name = "KubeconfigError";
  readonly code = "Kubeconfig";
}

/** A named cluster, user or context, with its fields as in the file. */
export interface KubeconfigEntry {
  readonly name: string;
  /** The file that contains the entry. Relative paths are resolved against its directory. */
  readonly file: string;
  /** Path of the entry in the file, for messages: `clusters[name=dev].cluster`. */
  readonly path: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** One or more merged kubeconfig files. Of entries with the same name, the first one is used. */
export interface Kubeconfig {
  readonly files: readonly string[];
  readonly currentContext: string | undefined;
  readonly clusters: ReadonlyMap<string, KubeconfigEntry>;
  readonly users: ReadonlyMap<string, KubeconfigEntry>;
  readonly contexts: ReadonlyMap<string, KubeconfigEntry>;
}

/** Where to find kubeconfig files. */
export interface KubeconfigLocation {
  /** `--kubeconfig`: only this file. It must exist. */
  readonly kubeconfig?: string | undefined;
  /** Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** The files to read, in order, and whether they must exist: missing files of `KUBECONFIG` are skipped. */
export function kubeconfigFiles({ kubeconfig, env = process.env }: KubeconfigLocation): { files: string[]; required: boolean } {
  if (kubeconfig !== undefined) return { files: [kubeconfig], required: true };
  const listed = (env["KUBECONFIG"] ?? "").split(delimiter).filter((file) => file !== "");
  if (listed.length > 0) return { files: [...new Set(listed)], required: false };
  return { files: [join(env["HOME"] ?? homedir(), ".kube", "config")], required: false };
}

/**
 * Reads and merges kubeconfig files. `undefined` if none exists and none is required.
 *
 * **Errors**: {@link KubeconfigError} if a file cannot be read or is not a kubeconfig.
 */
export async function loadKubeconfig(location: KubeconfigLocation = {}): Promise<Kubeconfig | undefined> {
  const { files, required } = kubeconfigFiles(location);
  const read: { readonly file: string; readonly text: string }[] = [];
  for (const file of files) {
    try {
      read.push({ file, text: await readFile(file, "utf8") });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "ENOENT" && !required) continue;
      throw new KubeconfigError(`kubeconfig ${file}: ${code === "ENOENT" ? "no such file" : messageOf(error)}`, {
        cause: error,
      });
    }
  }
  return read.length === 0 ? undefined : mergeKubeconfigs(read);
}

/**
 * Merges the texts of kubeconfig files. `file` names each in messages.
 *
 * **Errors**: {@link KubeconfigError} if a text is not a kubeconfig.
 */
export async function mergeKubeconfigs(
  texts: readonly { readonly file: string; readonly text: string }[],
): Promise<Kubeconfig> {
  // Loaded lazily: most processes that embed the client have no kubeconfig.
  const { parse } = await import("yaml");
  let currentContext: string | undefined;
  const clusters = new Map<string, KubeconfigEntry>();
  const users = new Map<string, KubeconfigEntry>();
  const contexts = new Map<string, KubeconfigEntry>();
  for (const { file, text } of texts) {
    let root: unknown;
    try {
      root = parse(text);
    } catch (error) {
      throw new KubeconfigError(`kubeconfig ${file}: not YAML: ${messageOf(error)}`, { cause: error });
    }
    if (root === null || root === undefined) continue;
    if (!isJsonObject(root)) throw new KubeconfigError(`kubeconfig ${file}: not a kubeconfig: the document is not an object`);
    const current = root["current-context"];
    if (current !== undefined && current !== null && typeof current !== "string") {
      throw new KubeconfigError(`kubeconfig ${file}: current-context is not a string`);
    }
    currentContext ??= current === "" ? undefined : (current ?? undefined);
    addEntries(clusters, file, root, "clusters", "cluster");
    addEntries(users, file, root, "users", "user");
    addEntries(contexts, file, root, "contexts", "context");
  }
  return { files: texts.map(({ file }) => file), currentContext, clusters, users, contexts };
}

function addEntries(
  into: Map<string, KubeconfigEntry>,
  file: string,
  root: Readonly<Record<string, unknown>>,
  list: string,
  field: string,
): void {
  const entries = root[list] ?? [];
  if (!Array.isArray(entries)) throw new KubeconfigError(`kubeconfig ${file}: ${list} is not a list`);
  for (const [index, entry] of entries.entries()) {
    if (!isJsonObject(entry)) throw new KubeconfigError(`kubeconfig ${file}: ${list}[${index}] is not an object`);
    const name = entry["name"];
    if (typeof name !== "string" || name === "")
      throw new KubeconfigError(`kubeconfig ${file}: ${list}[${index}].name is missing`);
    const path = `${list}[name=${name}].${field}`;
    const fields = entry[field] ?? {};
    if (!isJsonObject(fields)) throw new KubeconfigError(`kubeconfig ${file}: ${path} is not an object`);
    if (!into.has(name)) into.set(name, { name, file, path, fields });
  }
}

/** A string field of an entry. Empty counts as absent. */
export function stringField(entry: KubeconfigEntry, name: string): string | undefined {
  const value = entry.fields[name];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string") throw fieldError(entry, name, "is not a string");
  return value;
}

/** A boolean field of an entry. */
export function booleanField(entry: KubeconfigEntry, name: string): boolean | undefined {
  const value = entry.fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "boolean") throw fieldError(entry, name, "must be true or false");
  return value;
}

/** A list of strings in an entry. */
export function stringsField(entry: KubeconfigEntry, name: string): readonly string[] | undefined {
  const value = entry.fields[name];
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value) || value.some((each) => typeof each !== "string"))
    throw fieldError(entry, name, "is not a list of strings");
  return value as readonly string[];
}

/** The error for a field of an entry. */
export function fieldError(entry: KubeconfigEntry, name: string, problem: string, cause?: unknown): KubeconfigError {
  return new KubeconfigError(
    `kubeconfig ${entry.file}: ${entry.path}.${name} ${problem}`,
    cause === undefined ? {} : { cause },
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
