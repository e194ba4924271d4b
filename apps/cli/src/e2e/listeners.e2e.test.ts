import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ownListeners } from "../local/listeners.ts";
import { loadOperators } from "../operators.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { descendantsOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/* SECURITY.md lists every listener: compares its table with the sockets of a running `keelson up`. */

const folder = temporaryFolder();
let keelson: TestKeelson;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path);
});
afterAll(async () => {
  await keelson.kubectl("delete", "sandboxpool,service", "--all", "--timeout=45s");
  await keelson[Symbol.asyncDispose]();
});

interface Socket {
  readonly address: string;
  readonly pid: number;
}

/** The sockets on which `keelson up` and its Pods listen, as ss(8) reports them. */
function listeningSockets(): readonly Socket[] {
  const ours = new Set([...descendantsOf(keelson.process.child.pid ?? 0), ...descendantsOf(folder.path)]);
  return ["-ltnupH", "-lxpH"].flatMap((flags) =>
    execFileSync("ss", [flags], { encoding: "utf8" })
      .split("\n")
      .flatMap((line) => {
        const pid = Number(/pid=(\d+)/.exec(line)?.[1] ?? 0);
        const address = line.split(/\s+/)[4] ?? "";
        return ours.has(pid) ? [{ pid, address }] : [];
      }),
  );
}

/** `host:port` of the URL that a component printed. */
function printed(pattern: RegExp): string {
  const url = pattern.exec(keelson.process.output())?.[1] ?? "";
  return new URL(url).host;
}

test("lists every socket on which `keelson up`, its Services and its agents listen", async () => {
  const manifest = join(folder.path, "objects.yaml");
  writeFileSync(
    manifest,
    `apiVersion: sandbox.fast.io/v1alpha1
kind: SandboxPool
metadata: {name: pool, namespace: default}
spec:
  capacity: {poolMin: 1, poolMax: 1, bufferMin: 1}
`,
  );
  await keelson.kubectl("apply", "-f", manifest);
  await keelson.kubectl("create", "service", "clusterip", "web", "--tcp=80");
  const expected = new Map<string, (address: string) => boolean>([
    ["API server", (address) => address === new URL(apiUrl()).host],
    ["API server for components", (address) => address === join(keelson.dataDir, "api", "server.sock")],
    ["Metrics and reconcile traces", (address) => address === printed(/(http:\/\/[\d.:]+)\/metrics/)],
    ["Node", (address) => address === join(keelson.dataDir, "node", "kubelet.sock")],
    ["Admission webhook of middleware", (address) => address === printed(/admission webhooks on (https:\/\/[\d.:]+)/)],
    ["Services", (address) => /^127\.(12[89]|1[3-8]\d|19[01])\./.test(address)],
    ["Reservation of Pod addresses", (address) => /^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.255\.254:6442$/.test(address)],
    ["MQTT broker", (address) => address === new URL(keelson.brokerUrl).host],
    ["Server of `keelson robots exec` and `logs`", (address) => address === printed(/^robots .*?(http:\/\/[\d.:]+)/m)],
    ["gRPC server of sandboxes", (address) => address === printed(/\(gRPC\) on (https?:\/\/[\d.:]+)/)],
    ["Sandbox agents", (address) => /^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.[\d.]+:5758$/.test(address)],
  ]);
  const rowsOf = (address: string): readonly string[] => [...expected].flatMap(([name, isAt]) => (isAt(address) ? [name] : []));
  await expect
    .poll(() => new Set(listeningSockets().flatMap(({ address }) => rowsOf(address))), { timeout: 60_000 })
    .toEqual(new Set(expected.keys()));
  expect(listeningSockets().filter(({ address }) => rowsOf(address).length !== 1)).toEqual([]);

  const operators = await loadOperators();
  const documented = [...ownListeners, ...operators.flatMap(({ listeners = [] }) => listeners)].map(({ name }) => name);
  expect(documented).toEqual(expect.arrayContaining([...expected.keys()]));
  const page = readFileSync(new URL("../../../../SECURITY.md", import.meta.url), "utf8");
  for (const name of documented) expect(page).toContain(`\n| ${name} | `);
});

function apiUrl(): string {
  return /server: "?([^\s"]+)/.exec(readFileSync(keelson.kubeconfig, "utf8"))?.[1] ?? "";
}
