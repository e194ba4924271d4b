import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ReportFiles } from "./report-files.ts";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "report-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("writes what could be read, and names what could not, in an archive that only its owner can read", async () => {
  const folder = await temporaryFolder();
  const files = new ReportFiles(new AbortController().signal);
  await files.add("a/b.json", async () => ({ value: 1 }));
  await files.add("log.txt", () => "lines\n");
  await files.add("c.json", () => Promise.reject(new Error("forbidden")));
  expect(files.paths).toEqual(["a/b.json", "log.txt"]);
  const archive = join(folder, "report.tar.gz");
  expect(await files.write(archive, "report")).toBe((await stat(archive)).size);
  expect((await stat(archive)).mode & 0o777).toBe(0o600);
  const list = execFileSync("tar", ["-tzf", archive], { encoding: "utf8" })
    .split("\n")
    .filter((name) => !name.endsWith("/"));
  expect(list.sort()).toEqual(["", "report/a/b.json", "report/failures.json", "report/log.txt"]);
  const failures = execFileSync("tar", ["-xzOf", archive, "report/failures.json"], { encoding: "utf8" });
  expect(JSON.parse(failures)).toEqual([{ path: "c.json", message: "forbidden" }]);
  expect(await readdir(folder)).toEqual(["report.tar.gz"]);
});

test("does not replace a file, and leaves nothing behind", async () => {
  const folder = await temporaryFolder();
  const archive = join(folder, "report.tar.gz");
  await writeFile(archive, "mine");
  await expect(new ReportFiles(new AbortController().signal).write(archive, "report")).rejects.toMatchObject({
    code: "EEXIST",
  });
  expect(await readdir(folder)).toEqual(["report.tar.gz"]);
});

test("an aborted collection rejects instead of recording a failure", async () => {
  const controller = new AbortController();
  const files = new ReportFiles(controller.signal);
  const reason = new Error("interrupted");
  controller.abort(reason);
  await expect(files.add("a.json", () => Promise.reject(new Error("closed")))).rejects.toBe(reason);
});
