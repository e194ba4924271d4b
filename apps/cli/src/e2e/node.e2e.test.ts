import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Node, Secret } from "@keelson/api-machinery/kinds";
import { createClient, createHttpTransport, findConnection } from "@keelson/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type KeelsonProcess, startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;
let node: KeelsonProcess;
const kubectl = (...args: string[]): Promise<string> => keelson.kubectl(...args);

const startNode = (name: string, dataDir: string): KeelsonProcess =>
  startKeelson([
    ...["node", "--kubeconfig", keelson.kubeconfig, "--name", name, "--data-dir", join(folder.path, dataDir)],
    ...["--address", "127.0.0.1", "--port", "0", "--pod-runtime", "bubblewrap", "--taint", "kind=extra:NoSchedule"],
  ]);

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
  node = startNode("extra", "node");
  await node.printed(/^node extra joined/m);
}, 120_000);
afterAll(async () => {
  await kubectl("delete", "pod", "--all", "--timeout=40s");
  await node.stop();
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
}, 120_000);

async function run(name: string, script: string): Promise<void> {
  const spec = { nodeName: "extra", restartPolicy: "Never", terminationGracePeriodSeconds: 1 };
  await kubectl(
    ...["run", name, "--image=none", `--overrides=${JSON.stringify({ apiVersion: "v1", spec })}`],
    ...["--command", "--", "/bin/sh", "-c", script],
  );
}

test("a joined node runs Pods in isolation, with logs, exec and the node's address", async () => {
  await kubectl("wait", "node/extra", "--for=condition=Ready", "--timeout=40s");
  expect(await kubectl("get", "node", "extra", "-o", "jsonpath={.spec.taints[0].key}={.spec.taints[0].value}")).toBe(
    "kind=extra",
  );
  const csr = await kubectl("get", "csr", "-o", "jsonpath={.items[*].spec.signerName}");
  expect(csr).toBe("kubernetes.io/kube-apiserver-client-kubelet");
  await run("worker", "echo started; exec sleep 300");
  await kubectl("wait", "pod/worker", "--for=condition=Ready", "--timeout=40s");
  expect(await kubectl("get", "pod", "worker", "-o", "jsonpath={.status.podIP}")).toBe("127.0.0.1");
  expect(await kubectl("logs", "worker")).toBe("started\n");
  expect(await kubectl("exec", "worker", "--", "cat", "/proc/1/comm")).toBe("bwrap\n");
});

test("the name of a node is not taken over by another machine", async () => {
  const other = startNode("extra", "other");
  expect(await other.exited).toBe(1);
  expect(other.output()).toContain("node extra already exists; choose another name with --name");
});

test("programs outlive the node's process, which adopts them when it starts again with its certificate", async () => {
  await run("survivor", "echo started; exec sleep 300");
  await kubectl("wait", "pod/survivor", "--for=condition=Ready", "--timeout=40s");
  expect(await node.stop()).toBe(0);
  await kubectl("wait", "node/extra", "--for=condition=Ready=false", "--timeout=40s");
  node = startNode("extra", "node");
  await node.printed(/^node extra joined/m);
  await kubectl("wait", "node/extra", "--for=condition=Ready", "--timeout=40s");
  expect(await kubectl("logs", "survivor")).toBe("started\n");
  expect(await kubectl("get", "pod", "survivor", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")).toBe("0");
  expect(await kubectl("get", "csr", "-o", "name")).toMatch(/^certificatesigningrequest\S+\n$/);
});

test("a node's certificate reads only the Secrets of its own Pods", async () => {
  await kubectl("create", "secret", "generic", "private", "--from-literal=a=b");
  const { certificate, key } = JSON.parse(readFileSync(join(folder.path, "node/pki/node.json"), "utf8"));
  const { transport } = await findConnection({ kubeconfig: keelson.kubeconfig });
  const credentials = { get: () => Promise.resolve({ clientCertificate: certificate, clientKey: key }) };
  const client = createClient({ transport: createHttpTransport({ ...transport, credentials }), fieldManager: "test" });
  await expect(client.get(Secret, { namespace: "default", name: "private" })).rejects.toThrow(
    "no relationship found between node 'extra' and this object",
  );
  expect(await client.get(Node, { name: "extra" })).toMatchObject({ metadata: { name: "extra" } });
  await client.close();
});
