import { pathToFileURL } from "node:url";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { type ArtifactPolicy, isAllowedSource } from "../policy/robot-policy.ts";
import { folderPath } from "./task-path.ts";

/** An artifact of a task, validated. It is JSON, so that it can be recorded before it is fetched. */
export interface Artifact {
  readonly url: string;
  /** Lower-case hex. */
  readonly sha256?: string;
  /** Path below the task's directory: of the file, or of the directory that the archive is unpacked to. */
  readonly path: string;
  /** Set if it is an archive to unpack. */
  readonly archive?: "tar" | "zip";
}

/** Maximum number of artifacts of a task. */
const maxArtifacts = 64;

/** Directory of artifacts that name none, as in Nomad. */
const defaultFolder = "local";

/**
 * Parses `spec.artifacts`. The fields have go-getter's meaning.
 *
 * Returns a string that begins with the field if an artifact is invalid, not supported, or forbidden by the policy.
 */
export function readArtifacts(value: unknown, policy: ArtifactPolicy): readonly Artifact[] | string {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > maxArtifacts)
    return `spec.artifacts must be a list of at most ${maxArtifacts} artifacts`;
  const artifacts: Artifact[] = [];
  for (const [index, each] of value.entries()) {
    const field = `spec.artifacts[${index}]`;
    const artifact = isJsonObject(each) ? readArtifact(each, policy) : " must be an object";
    if (typeof artifact === "string") return `${field}${artifact}`;
    artifacts.push(artifact);
  }
  return artifacts;
}

/** The artifact, or what follows its name in the error. */
function readArtifact(value: JsonObject, policy: ArtifactPolicy): Artifact | string {
  const { getterSource, getterMode = "any", relativeDest = "" } = value;
  const options = value.getterOptions ?? {};
  if (typeof getterSource !== "string") return ".getterSource must be a string";
  if (typeof relativeDest !== "string") return ".relativeDest must be a string";
  if (getterMode !== "any" && getterMode !== "file" && getterMode !== "dir") return ".getterMode must be any, file or dir";
  if (!isJsonObject(options)) return ".getterOptions must be an object";
  const unknown = Object.keys(options).find((key) => key !== "checksum" && key !== "archive");
  if (unknown !== undefined) return `.getterOptions.${unknown} is not supported; supported are checksum and archive`;
  const source = getterSource.startsWith("/") ? pathToFileURL(getterSource).href : getterSource;
  if (!URL.canParse(source)) return `.getterSource: ${JSON.stringify(getterSource)} must be a URL`;
  const url = new URL(source);
  url.hash = "";
  // go-getter also takes its options from the URL.
  const checksum = options.checksum ?? takeParameter(url, "checksum");
  const archiveOption = options.archive ?? takeParameter(url, "archive");
  const sha256 = checksum === undefined ? undefined : readDigest(checksum);
  if (checksum !== undefined && sha256 === undefined) {
    return `.getterOptions.checksum: ${JSON.stringify(checksum)} must be of the form sha256:<64 hexadecimal digits>`;
  }
  if (!["http:", "https:", "file:"].includes(url.protocol)) {
    return `.getterSource: ${JSON.stringify(url.protocol.slice(0, -1))} is not supported; supported are https, http and file`;
  }
  const forbidden = sourceProblem(policy, url, sha256);
  if (forbidden !== undefined) return forbidden;
  const name = fileNameOf(url);
  const archive = archiveOption === "false" || archiveOption === false ? undefined : archiveOf(name);
  const dest = folderPath(relativeDest === "" ? defaultFolder : relativeDest);
  if (dest === undefined)
    return `.relativeDest: ${JSON.stringify(relativeDest)} must be a path below the task's directory, outside logs`;
  if (getterMode === "dir" && archive === undefined) {
    return `.getterMode: dir requires an archive (${archiveNames.join(", ")}); ${describeUrl(url)} is not one`;
  }
  const base = { url: url.href, ...(sha256 === undefined ? {} : { sha256 }) };
  if (getterMode !== "file" && archive !== undefined) return { ...base, path: dest, archive };
  const isFilePath = getterMode === "file" && relativeDest !== "" && !relativeDest.endsWith("/");
  const path = isFilePath ? dest : folderPath(`${dest}/${name}`);
  if (path === undefined || path === "." || name === "") {
    return `.getterSource: ${describeUrl(url)} names no file; set getterMode to file and relativeDest to the name`;
  }
  return { ...base, path };
}

/** Why the policy forbids an artifact, as what follows its name in the error; undefined if it is allowed. */
export function sourceProblem(policy: ArtifactPolicy, url: URL, sha256: string | undefined): string | undefined {
  if (!isAllowedSource(policy, url)) {
    return `.getterSource: ${describeUrl(url)} is not allowed; the robot's policy allows ${policy.sources.join(", ") || "no source"}`;
  }
  if (sha256 === undefined && policy.requireChecksum) {
    return ".getterOptions.checksum is missing; the robot's policy requires sha256:<digest>";
  }
  return undefined;
}

function takeParameter(url: URL, name: string): string | undefined {
  const value = url.searchParams.get(name);
  if (value === null) return undefined;
  url.searchParams.delete(name);
  return value;
}

function readDigest(value: unknown): string | undefined {
  return typeof value === "string" ? /^(?:sha256:)?([0-9a-f]{64})$/i.exec(value)?.[1]?.toLowerCase() : undefined;
}

/** The last part of the URL's path; empty if it is not a file name. */
function fileNameOf(url: URL): string {
  try {
    const name = decodeURIComponent(url.pathname.split("/").at(-1) ?? "");
    return name === "." || name === ".." || /[/\0]/.test(name) ? "" : name;
  } catch {
    return "";
  }
}

const archiveNames = [".tar", ".tar.gz", ".tgz", ".zip"];

function archiveOf(name: string): Artifact["archive"] {
  if (/\.(?:tar|tar\.gz|tgz)$/i.test(name)) return "tar";
  return /\.zip$/i.test(name) ? "zip" : undefined;
}

/** A URL for messages: its query may contain a secret. */
export function describeUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}
