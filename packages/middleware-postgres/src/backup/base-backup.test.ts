import { createHash } from "node:crypto";
import { pack } from "tar-stream";
import { describe, expect, it } from "vitest";
import { type BaseBackupSink, readBaseBackup } from "./base-backup.ts";
import { parseManifest } from "./backup-manifest.ts";

const sha256 = (data: string): string => createHash("sha256").update(data).digest("hex");

function manifestOf(files: Readonly<Record<string, string>>): string {
  const lines = Object.entries(files).map(
    ([path, data]) =>
      `{ "Path": "${path}", "Size": ${data.length}, "Last-Modified": "x", "Checksum-Algorithm": "SHA256", "Checksum": "${sha256(data)}" }`,
  );
  const start = `{ "PostgreSQL-Backup-Manifest-Version": 1,\n"Files": [\n${lines.join(",\n")}\n],\n"WAL-Ranges": [\n{ "Timeline": 2, "Start-LSN": "0/2000028", "End-LSN": "0/2000100" }\n],\n`;
  return `${start}"Manifest-Checksum": "${sha256(start)}"}\n`;
}

const files = { PG_VERSION: "15\n", "base/1/1249": "x".repeat(3_000), "pg_wal/archive_status/1.done": "" };
const segment = `pg_wal/${"0".repeat(24)}`;
const complete = { ...files, [segment]: "log", backup_manifest: manifestOf(files) };

async function archiveOf(entries: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = pack();
  for (const [name, data] of Object.entries(entries)) archive.entry({ name }, data);
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

class Written implements BaseBackupSink {
  readonly files: Record<string, string> = {};

  createFolder(): Promise<void> {
    return Promise.resolve();
  }

  async writeFile(path: string, data: AsyncIterable<Uint8Array>): Promise<void> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of data) chunks.push(chunk);
    this.files[path] = Buffer.concat(chunks).toString();
  }
}

async function* inChunks(data: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += 700) yield data.subarray(at, at + 700);
}

async function read(entries: Readonly<Record<string, string>>, length?: number) {
  const sink = new Written();
  const content = await readBaseBackup(inChunks((await archiveOf(entries)).subarray(0, length)), sink);
  return { ...content, written: sink.files };
}

describe("a base backup", () => {
  it("passes its files on, without the manifest, if they match it", async () => {
    const { written, majorVersion, log } = await read(complete);
    expect(written).toEqual({ ...files, [segment]: "log" });
    expect([majorVersion, log]).toEqual(["15", { timeline: 2, firstTimeline: 2, start: "0/2000028", end: "0/2000100" }]);
  });

  it.each([
    ["a file that differs", { ...complete, "base/1/1249": "y".repeat(3_000) }, /base\/1\/1249 differs from the manifest/],
    ["a file that is not in the manifest", { "base/1/7": "z", ...complete }, /base\/1\/7 is not in the manifest/],
    ["no log", { ...files, backup_manifest: manifestOf(files) }, /the archive has no log/],
    ["no manifest", { ...files, [segment]: "log" }, /no manifest: it is truncated/],
    [
      "a manifest that was changed",
      { ...complete, backup_manifest: manifestOf(files).replace('"Size": 3000', '"Size": 3001') },
      /its checksum does not match/,
    ],
    ["a file outside the data directory", { "../../etc/passwd": "x", ...complete }, /outside the data directory/],
  ])("is refused with %s", async (_, entries, message) => {
    await expect(read(entries)).rejects.toThrow(message);
  });

  it.each([600, 2_000, 4_500])("is refused if it ends after %d bytes", async (length) => {
    await expect(read(complete, length)).rejects.toMatchObject({ code: "SnapshotFailed" });
  });

  it("passes an error of its source on", async () => {
    const data = (async function* () {
      yield (await archiveOf(complete)).subarray(0, 2_000);
      throw new RangeError("the storage has failed");
    })();
    await expect(readBaseBackup(data, new Written())).rejects.toThrow(RangeError);
  });
});

it("reads the log that a backup needs over several timelines", () => {
  const start = `{ "PostgreSQL-Backup-Manifest-Version": 1,\n"Files": [],\n"WAL-Ranges": [\n{ "Timeline": 3, "Start-LSN": "0/5", "End-LSN": "0/9" },\n{ "Timeline": 2, "Start-LSN": "0/2", "End-LSN": "0/5" }\n],\n`;
  const { log } = parseManifest(`${start}"Manifest-Checksum": "${sha256(start)}"}\n`);
  expect(log).toEqual({ timeline: 3, firstTimeline: 2, start: "0/2", end: "0/9" });
});
