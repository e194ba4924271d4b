import { createHash } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import { AgentError } from "@keelson/middleware-agent";
import { nameOf, segmentAt } from "../log/log-position.ts";
import { parsePosition } from "../roles/timeline.ts";

/** A file of a base backup. */
export interface ManifestFile {
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Log that a base backup needs to become consistent. */
export interface LogRange {
  /** The current timeline, and the one at the start. */
  readonly timeline: number;
  readonly firstTimeline: number;
  /** Positions such as `0/2000028`. */
  readonly start: string;
  readonly end: string;
}

/** The description of a base backup that `pg_basebackup` adds to it. */
export interface BackupManifest {
  /** By path in the data directory. Files of the log are not listed. */
  readonly files: ReadonlyMap<string, ManifestFile>;
  readonly log: LogRange;
}

/**
 * Parses the manifest of a base backup with SHA-256 checksums.
 *
 * **Errors**: an `AgentError` with code `SnapshotFailed` if it is damaged.
 */
export function parseManifest(text: string): BackupManifest {
  const end = text.lastIndexOf('"Manifest-Checksum"');
  const manifest = parsed(text);
  // The checksum covers all lines before its own.
  const sha256 = createHash("sha256")
    .update(text.slice(0, Math.max(end, 0)))
    .digest("hex");
  if (end < 0 || manifest["Manifest-Checksum"] !== sha256) throw damaged("its checksum does not match");
  const files = new Map<string, ManifestFile>();
  for (const file of listOf(manifest["Files"])) {
    const { Path: path, Size: size, Checksum: checksum } = file;
    if (typeof path !== "string" || typeof size !== "number" || file["Checksum-Algorithm"] !== "SHA256")
      throw damaged("a file has no path, size or SHA-256");
    files.set(path, { sizeBytes: size, sha256: String(checksum) });
  }
  // A backup of a standby that has just changed its timeline needs log of both; the last one is the current one.
  const ranges = listOf(manifest["WAL-Ranges"]);
  const last = ranges.toSorted((a, b) => Number(a["Timeline"]) - Number(b["Timeline"])).at(-1);
  const first = ranges.toSorted((a, b) => Number(a["Timeline"]) - Number(b["Timeline"]))[0];
  if (first === undefined || last === undefined) throw damaged("it names no log");
  const log = {
    timeline: Number(last["Timeline"]),
    firstTimeline: Number(first["Timeline"]),
    start: String(first["Start-LSN"]),
    end: String(last["End-LSN"]),
  };
  return { files, log };
}

/** Name of the first segment of the log that a backup needs. */
export function segmentNameOf({ firstTimeline, start }: LogRange): string {
  return nameOf({ timeline: firstTimeline, number: segmentAt(parsePosition(start)) });
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // Truncated.
  }
  throw damaged("it is not a JSON object");
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter((each) => isJsonObject(each)) : [];
}

const damaged = (why: string): AgentError =>
  new AgentError("SnapshotFailed", `the manifest of the base backup is damaged: ${why}`);
