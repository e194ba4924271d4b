import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startKeelson, upArguments } from "../testing/keelson-process.ts";
import { output, tsc, vitest } from "../testing/tools.ts";

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL("../../../../docs/how-to/webhooks.md", import.meta.url)), "utf8");
const built = fileURLToPath(new URL("../../dist", import.meta.url));

/** A directory inside the repository, so that imports resolve as they do for a reader. */
let dir: string;

beforeEach(() => {
  mkdirSync(built, { recursive: true });
  dir = mkdtempSync(join(built, "webhooks-page-"));
  for (const [index, match] of [...page.matchAll(/^```(ts|json|yaml)(?: file=(\S+))?\n([^]*?)^```$/gm)].entries()) {
    const [, language = "", name = `block-${index}.${language}`, text = ""] = match;
    writeFileSync(join(dir, name), text);
  }
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("compiles the page's code, passes its test, and serves its webhooks to keelson up", async () => {
  await output(dir, tsc, "-p", ".");
  expect(await output(dir, vitest, "run")).toMatch(/1 passed/);

  await using keelson = startKeelson(upArguments(dir, "--only", "cluster"));
  await keelson.printed(/^ready$/m);
  const kubeconfig = join(dir, "keelson", "kubeconfig");
  const kubectl = async (...args: readonly string[]): Promise<string> =>
    (await run("kubectl", ["--kubeconfig", kubeconfig, ...args], { cwd: dir })).stdout;
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const child = spawn(process.execPath, ["dist/main.js"], { cwd: dir, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(child.stdout, "data");
    await kubectl("apply", "-f", "websites.yaml");
    expect(JSON.parse(await kubectl("get", "websites.v2.example.com", "home", "-o", "json"))).toMatchObject({
      apiVersion: "example.com/v2",
      spec: { host: "example.com", port: 443 },
    });
    const moved = kubectl("patch", "websites.v2.example.com", "home", "--type=merge", "-p", '{"spec":{"host":"b.com"}}');
    await expect(moved).rejects.toThrow("spec.host: Forbidden: cannot be changed");
    const warned = await run(
      "kubectl",
      ["--kubeconfig", kubeconfig, "patch", "websites.v2.example.com", "home", "--type=merge", "-p", '{"spec":{"port":444}}'],
      { cwd: dir },
    );
    expect(warned.stderr).toContain("Warning: changing the port restarts the site");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    await expect(kubectl("delete", "website", "home")).rejects.toThrow(
      'failed calling webhook "validate.websites.example.com"',
    );
  } finally {
    child.kill("SIGKILL");
  }
});
