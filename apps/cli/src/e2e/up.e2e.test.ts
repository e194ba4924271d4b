import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { once } from "node:events";
import { ConfigMap, Namespace } from "@keelson/api-machinery/kinds";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { watched } from "@keelson/client/testing";
import { Robot } from "@keelson/robots";
import { startKeelson, upArguments } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { processesOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

describe("a keelson up with every component", () => {
  const folder = temporaryFolder();
  let keelson: TestKeelson;

  beforeAll(async () => {
    keelson = await startTestKeelson(folder.path);
  });
  afterAll(async () => {
    await keelson[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  test("prints one line per component and ready at the end", () => {
    // On a busy machine, the watchdog reports on standard error that an event loop was blocked.
    const lines = keelson.process
      .output()
      .trim()
      .split("\n")
      .filter((line) => !line.includes(": event loop blocked for "));
    const ready = lines.indexOf("ready");
    const components = new Set(lines.slice(0, ready).map((line) => line.split(/\s/)[0]));
    expect([...components]).toEqual(["apiserver", "metrics", "cluster", "node", "robots", "middleware", "sandboxes"]);
  });

  test("rejects a second up on the same directory and continues to run", async () => {
    await using second = startKeelson(upArguments(folder.path));
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain(String(keelson.process.child.pid));
    const client = await keelson.client();
    expect((await client.get(Namespace, { name: "default" })).metadata.name).toBe("default");
    await client.close();
  });

  test("exits with status 0 on SIGTERM and keeps objects across a restart", async () => {
    const before = await keelson.client();
    await before.create(ConfigMap, { metadata: { name: "kept", namespace: "default" }, data: { a: "1" } });
    await before.close();
    expect(await keelson.process.stop()).toBe(0);
    keelson = await startTestKeelson(folder.path);
    const after = await keelson.client();
    expect((await after.get(ConfigMap, { namespace: "default", name: "kept" })).data).toEqual({ a: "1" });
    await after.close();
  });
});

test.each([["--api-port"], ["--mqtt-port"], ["--metrics-port"]])(
  "names the port in use in the error of %s and exits with status 1",
  async (flag) => {
    using folder = temporaryFolder();
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    await using keelson = startKeelson([...upArguments(folder.path), flag, String(port)]);
    expect(await keelson.exited).toBe(1);
    expect(keelson.output()).toContain(String(port));
    expect(keelson.output()).toContain(flag);
    other.close();
  },
);

test("serves metrics, probes and recent reconciles on loopback unless --metrics-port is off", async () => {
  using folder = temporaryFolder();
  {
    await using keelson = await startTestKeelson(folder.path, "--only", "cluster,robots");
    const [, url = ""] = await keelson.process.printed(/^metrics\s+(http:\/\/127\.0\.0\.1:\d+)\/metrics$/m);
    const token = readFileSync(join(keelson.dataDir, "metrics-token"), "utf8").trim();
    const headers = { authorization: `Bearer ${token}` };
    const ask = async (path: string): Promise<string> => (await fetch(url + path, { headers })).text();
    for (const path of ["/metrics", "/debug/reconciles"]) expect((await fetch(url + path)).status).toBe(401);
    expect(await ask("/readyz?verbose")).toContain("[+]started ok");
    expect(await ask("/healthz")).toBe("ok");
    const client = await keelson.client();
    await client.create(Robot, { metadata: { name: "r1", namespace: "default" }, spec: { robotId: "r1" } });
    await watched(client, Robot, "r1", (robot) => robot?.status?.phase !== undefined);
    await client.close();
    const metrics = await ask("/metrics");
    for (const line of [
      /^controller_runtime_reconcile_total\{controller="robots-robot",result="success"\} [1-9]/m,
      /^workqueue_adds_total\{name="robots-robot",controller="robots-robot"\} [1-9]/m,
      /^rest_client_requests_total\{code="200",method="PATCH",host="127\.0\.0\.1:\d+"\} [1-9]/m,
      /^keelson_cache_objects\{kind="robots\.v1alpha1\.robot\.k8s4r\.io"\} 1$/m,
      /^nodejs_eventloop_lag_seconds /m,
      /^process_resident_memory_bytes /m,
    ])
      expect(metrics).toMatch(line);
    const reconciles: unknown = JSON.parse(await ask("/debug/reconciles?controller=robots-robot&name=r1"));
    expect((reconciles as unknown[])[0]).toMatchObject({
      causes: [{ why: "create", kind: "Robot" }],
      writes: [{ verb: "applyStatus" }],
    });
  }
  await using without = await startTestKeelson(folder.path, "--only", "apiserver", "--metrics-port", "off");
  expect(without.process.output()).not.toContain("metrics");
});

test("records requests in an audit log by a policy, and names the field of an invalid policy", async () => {
  using folder = temporaryFolder();
  const policyFile = join(folder.path, "policy.yaml");
  const auditLog = join(folder.path, "logs", "audit.log");
  const flags = ["--only", "apiserver", "--audit-policy-file", policyFile, "--audit-log-path", auditLog];
  writeFileSync(policyFile, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Sometimes\n");
  await using invalid = startKeelson([...upArguments(join(folder.path, "a")), ...flags]);
  expect(await invalid.exited).toBe(2);
  expect(invalid.output()).toMatch(
    /--audit-policy-file: audit policy .*policy\.yaml: rules\[0\]\.level: Unsupported value: "Sometimes"/,
  );
  const rule = "- level: Request\n  verbs: [create]\n  resources:\n  - group: ''\n    resources: [configmaps]\n";
  writeFileSync(policyFile, `apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n${rule}`);
  await using keelson = await startTestKeelson(join(folder.path, "b"), ...flags);
  const client = await keelson.client();
  await client.create(ConfigMap, { metadata: { name: "audited", namespace: "default" }, data: { a: "1" } });
  await client.close();
  expect(await keelson.process.stop()).toBe(0);
  const events = readFileSync(auditLog, "utf8").trim().split("\n");
  expect(events.filter((line) => line.includes('"audited"')).map((line) => JSON.parse(line) as unknown)).toMatchObject([
    {
      level: "Request",
      stage: "ResponseComplete",
      verb: "create",
      requestObject: { data: { a: "1" } },
      responseStatus: { code: 201 },
    },
  ]);
});

test("names an invalid flag and exits with status 2", async () => {
  await using wrong = startKeelson(["up", "--api-port", "70000"]);
  expect(await wrong.exited).toBe(2);
  expect(wrong.output()).toContain("--api-port");
  await using halved = startKeelson(["up", "--audit-log-path", "audit.log"]);
  expect(await halved.exited).toBe(2);
  expect(halved.output()).toContain("--audit-log-path: requires --audit-policy-file");
  await using unknown = startKeelson(["up", "--only", "kitchen"]);
  expect(await unknown.exited).toBe(2);
  expect(unknown.output()).toContain("kitchen");
});

test("the tour runs a workload per operator, exits with status 0 and leaves nothing running", async () => {
  using folder = temporaryFolder();
  await using keelson = startKeelson(upArguments(folder.path, "--tour", "--exit"));
  expect(await keelson.exited).toBe(0);
  expect(keelson.output()).toMatch(/Job hello Completed: \d+ tasks on 2 robots/);
  expect(keelson.output()).toContain("output of task hello-");
  expect(keelson.output()).toMatch(/App cache Running: 3 Redis Pods/);
  expect(keelson.output()).toMatch(/IntegrationTest hello Succeeded/);
  expect(keelson.output()).toMatch(/RhinoJob pi Completed: 4 ranks, exit code 0/);
  expect(keelson.output()).toMatch(/Sandboxes: hello Succeeded, counter Running/);
  expect(processesOf(folder.path)).toEqual([]);
});
