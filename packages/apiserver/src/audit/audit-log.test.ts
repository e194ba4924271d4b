import { mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { AuditLog, openAuditLog } from "./audit-log.ts";
import { AuditMetrics } from "./audit-metrics.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-audit-"));
});
afterEach(() => rm(directory, { recursive: true }));

const clock = createVirtualClock(Date.parse("2026-01-31T12:00:00Z"));
const file = (name: string) => ({ path: join(directory, name), maxSize: 1, maxBackups: 0, maxAge: 0 });
const lost = (metrics: AuditMetrics): string =>
  [...metrics.lines()].find((line) => line.startsWith("apiserver_audit_error_total")) ?? "";
const unexpected = (error: unknown): void => expect.fail(String(error));
/** A third of the size at which the file is rotated. */
const third = `${"x".repeat(350_000)}\n`;

it("appends lines in order to a file that only its user can read", async () => {
  const metrics = new AuditMetrics();
  await writeFile(join(directory, "audit.log"), "before\n");
  const log = await openAuditLog({ file: file("logs/audit.log"), clock, metrics, onError: unexpected });
  for (const line of ["a\n", "b\n", "c\n"]) log.write(line);
  await log.close();
  expect(await readFile(join(directory, "logs/audit.log"), "utf8")).toBe("a\nb\nc\n");
  expect((await stat(join(directory, "logs/audit.log"))).mode & 0o777).toBe(0o600);
  expect((await stat(join(directory, "logs"))).mode & 0o777).toBe(0o700);
  expect(lost(metrics)).toBe('apiserver_audit_error_total{plugin="log"} 0');
});

it("continues an existing file", async () => {
  await writeFile(join(directory, "audit.log"), "before\n");
  const log = await openAuditLog({ file: file("audit.log"), clock, metrics: new AuditMetrics(), onError: unexpected });
  log.write("after\n");
  await log.close();
  expect(await readFile(join(directory, "audit.log"), "utf8")).toBe("before\nafter\n");
});

it("rotates the file by size, and keeps the newest files up to the number and age", async () => {
  const old = ["audit-2025-12-01T00-00-00.000.log", "audit-2026-01-30T00-00-00.000.log", "audit-2026-01-31T00-00-00.000.log"];
  for (const name of [...old, "audit-notes.log", "other.log"]) await writeFile(join(directory, name), "");
  const limits = { ...file("audit.log"), maxBackups: 2, maxAge: 30 };
  const log = await openAuditLog({ file: limits, clock, metrics: new AuditMetrics(), onError: unexpected });
  log.write(third.repeat(2));
  await written(join(directory, "audit.log"), 700_000);
  log.write(third.repeat(2));
  await log.close();
  expect((await readdir(directory)).sort()).toEqual([
    "audit-2026-01-31T00-00-00.000.log",
    "audit-2026-01-31T12-00-00.000.log",
    "audit-notes.log",
    "audit.log",
    "other.log",
  ]);
  expect((await stat(join(directory, "audit.log"))).size).toBe(third.length * 2);
});

it("ends a line that a crash tore, and counts its event as lost", async () => {
  const metrics = new AuditMetrics();
  await writeFile(join(directory, "audit.log"), 'before\n{"kind":"Ev');
  const log = await openAuditLog({ file: file("audit.log"), clock, metrics, onError: unexpected });
  log.write("after\n");
  await log.close();
  expect(await readFile(join(directory, "audit.log"), "utf8")).toBe('before\n{"kind":"Ev\nafter\n');
  expect(lost(metrics)).toBe('apiserver_audit_error_total{plugin="log"} 1');
});

it("starts a new file when it is due although the old one was moved away", async () => {
  const log = await openAuditLog({ file: file("audit.log"), clock, metrics: new AuditMetrics(), onError: unexpected });
  log.write(third.repeat(2));
  await written(join(directory, "audit.log"), third.length * 2);
  await rename(join(directory, "audit.log"), join(directory, "moved.log"));
  log.write(third.repeat(2));
  await log.close();
  expect((await readdir(directory)).sort()).toEqual(["audit.log", "moved.log"]);
  expect((await stat(join(directory, "audit.log"))).size).toBe(third.length * 2);
});

it("reports a rotation that fails repeatedly once", async () => {
  const errors: unknown[] = [];
  const options = { clock, metrics: new AuditMetrics(), onError: (error: unknown) => errors.push(error) };
  const log = await openAuditLog({ file: file("logs/audit.log"), ...options });
  log.write(third.repeat(2));
  await written(join(directory, "logs/audit.log"), third.length * 2);
  await rm(join(directory, "logs"), { recursive: true });
  log.write(third.repeat(2));
  while (errors.length === 0) await new Promise((resolve) => setImmediate(resolve));
  log.write(third.repeat(2));
  await log.close();
  expect(errors).toMatchObject([{ code: "ENOENT" }]);
  expect(lost(options.metrics)).toBe('apiserver_audit_error_total{plugin="log"} 0');
});

it("does not extend a file that was truncated by others when a write fails", async () => {
  const path = join(directory, "audit.log");
  const handle = await open(path, "a+");
  handle.appendFile = () => Promise.reject(new RangeError("the disk is full"));
  const errors: unknown[] = [];
  const options = { clock, metrics: new AuditMetrics(), onError: (error: unknown) => errors.push(error) };
  const log = new AuditLog({ file: file("audit.log"), ...options }, handle, 1000);
  log.write("a\n");
  await log.close();
  expect(errors).toHaveLength(1);
  expect((await stat(path)).size).toBe(0);
});

it("counts the events that a full disk does not take, and reports the first error only", async () => {
  const metrics = new AuditMetrics();
  const errors: unknown[] = [];
  const full = { ...file("audit.log"), path: "/dev/full" };
  const log = await openAuditLog({ file: full, clock, metrics, onError: (error) => errors.push(error) });
  log.write("a\n");
  log.write("b\n");
  while (lost(metrics) !== 'apiserver_audit_error_total{plugin="log"} 2') await new Promise((resolve) => setImmediate(resolve));
  log.write("c\n");
  await log.close();
  expect(lost(metrics)).toBe('apiserver_audit_error_total{plugin="log"} 3');
  expect(errors).toMatchObject([{ code: "ENOSPC" }]);
});

it("holds a limited amount of memory for a slow disk", async () => {
  const metrics = new AuditMetrics();
  const log = await openAuditLog({ file: file("audit.log"), clock, metrics, onError: unexpected, maxPendingBytes: 10 });
  for (let index = 0; index < 5; index++) log.write("1234\n");
  await log.close();
  expect(await readFile(join(directory, "audit.log"), "utf8")).toBe("1234\n1234\n");
  expect(lost(metrics)).toBe('apiserver_audit_error_total{plugin="log"} 3');
});

it("rejects a path that cannot be opened", async () => {
  const options = { file: file("audit.log/x"), clock, metrics: new AuditMetrics(), onError: unexpected };
  await writeFile(join(directory, "audit.log"), "");
  await expect(openAuditLog(options)).rejects.toMatchObject({
    code: "Unwritable",
    message: expect.stringMatching(/could not open the audit log/),
  });
});

async function written(path: string, bytes: number): Promise<void> {
  while ((await stat(path)).size < bytes) await new Promise((resolve) => setImmediate(resolve));
}
