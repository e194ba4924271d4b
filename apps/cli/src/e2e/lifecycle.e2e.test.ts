import { execFile, execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startKeelson } from "../testing/keelson-process.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

async function keelson(...args: string[]): Promise<{ readonly status: unknown; readonly output: string }> {
  const process = startKeelson(args);
  return { status: await process.exited, output: process.output() };
}

test("up --detach returns when everything is ready, status shows it, and down stops it", { timeout: 120_000 }, async () => {
  using folder = temporaryFolder();
  const at = ["--data-dir", folder.path];
  expect(await keelson("down", ...at)).toEqual({ status: 0, output: `keelson up does not run in ${folder.path}\n` });
  expect((await keelson("logs", ...at)).output).toBe(
    `keelson: ${join(folder.path, "keelson.log")} not found: start keelson up, or set --data-dir\n`,
  );

  const up = await keelson("up", "--detach", "--only", "apiserver", "--api-port", "0", ...at);
  try {
    expect(up).toMatchObject({
      status: 0,
      output: expect.stringMatching(/\nready\nrunning as process \d+; keelson down stops it\n/),
    });
    const status = await keelson("status", "-o", "json", ...at);
    expect(status.status).toBe(0);
    expect(JSON.parse(status.output)).toMatchObject({
      components: expect.arrayContaining([
        { name: "apiserver", state: "ready", detail: expect.stringMatching(/^https:/) },
        { name: "mpi", state: "not installed", detail: "not selected by --only of keelson up" },
      ]),
    });
    const { output: path } = await keelson("kubeconfig", "--path", ...at);
    const get = promisify(execFile)("kubectl", ["--kubeconfig", path.trim(), "get", "--raw", "/readyz"]);
    expect((await get).stdout).toBe("ok");
    const again = await keelson("up", "--detach", ...at);
    expect(again).toMatchObject({ status: 1, output: expect.stringMatching(/is in use by process \d+/) });
    const archive = join(folder.path, "report.tar.gz");
    const report = await keelson("bug-report", "--file", archive, "-o", "json", ...at);
    expect(JSON.parse(report.output)).toMatchObject({ file: archive, failures: [] });
    const contents = execFileSync("tar", ["-xzOf", archive], { encoding: "utf8" });
    expect(contents).toContain('"kind": "keelson up"');
    expect(contents).toContain("# HELP");
    expect(contents).not.toMatch(/PRIVATE KEY|eyJhbG/);
    const { output: lines } = await keelson("logs", "--tail", "1", ...at);
    expect((await readFile(join(folder.path, "keelson.log"), "utf8")).endsWith(lines)).toBe(true);
  } finally {
    expect(await keelson("down", ...at)).toMatchObject({ status: 0, output: expect.stringMatching(/^stopped/) });
  }
  expect(await keelson("status", ...at)).toMatchObject({ status: 1 });
});
