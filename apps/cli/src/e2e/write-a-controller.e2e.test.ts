import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { ResourceType } from "@keelson/api-machinery";
import { Namespace } from "@keelson/api-machinery/kinds";
import { connect } from "@keelson/client";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startKeelson, upArguments } from "../testing/keelson-process.ts";
import { output, tsc, vitest } from "../testing/tools.ts";

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL("../../../../docs/tutorials/write-a-controller.md", import.meta.url)), "utf8");
const built = fileURLToPath(new URL("../../dist", import.meta.url));
const tenantType: ResourceType = { group: "example.com", version: "v1", kind: "Tenant", plural: "tenants", scope: "Cluster" };

/** A directory inside the repository, so that imports resolve as they do for a reader. */
let dir: string;

beforeEach(() => {
  mkdirSync(built, { recursive: true });
  dir = mkdtempSync(join(built, "write-a-controller-"));
  for (const [, name = "", text = ""] of page.matchAll(/^```\w+ file=(\S+)\n([^]*?)^```$/gm))
    writeFileSync(join(dir, name), text);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("compiles the page's code, passes its test, and does on keelson up what the page says", async () => {
  await output(dir, tsc, "-p", ".");
  expect(await output(dir, vitest, "run")).toMatch(/1 passed/);

  await using keelson = startKeelson(upArguments(dir, "--only", "cluster"));
  await keelson.printed(/^ready$/m);
  const kubeconfig = join(dir, "keelson", "kubeconfig");
  const child = spawn(process.execPath, ["dist/main.js"], {
    cwd: dir,
    env: { ...process.env, KUBECONFIG: kubeconfig, PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const client = await connect({ kubeconfig });
  try {
    const [line] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
    const url = /http:\S+(?=\/metrics)/.exec(line)?.[0] ?? "";
    await run("kubectl", ["--kubeconfig", kubeconfig, "apply", "-f", "tenant.yaml"], { cwd: dir });
    await run("kubectl", ["--kubeconfig", kubeconfig, "wait", "tenant/blue", "--for=condition=Ready", "--timeout=30s"]);
    expect((await client.get(Namespace, { name: "tenant-blue" })).metadata.annotations).toEqual({
      contact: "blue@example.com",
    });
    const records: unknown = await (await fetch(`${url}/debug/reconciles?controller=tenants&name=blue`)).json();
    expect((records as readonly unknown[])[0]).toMatchObject({
      causes: [{ why: "create", kind: "Tenant" }],
      result: "success",
    });
    expect(await (await fetch(`${url}/metrics`)).text()).toMatch(/controller_runtime_reconcile_total\{.*success.*\} [1-9]/);
    await client.delete(tenantType, { name: "blue" });
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  } finally {
    child.kill("SIGKILL");
    await client.close();
  }
});
