import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;
let node: string;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
  node = (await keelson.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")).trim();
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** `yes` or `no`. */
async function can(user: string, ...question: string[]): Promise<string> {
  const asked = keelson.kubectl("auth", "can-i", ...question, `--as=${user}`, "--as-group=system:authenticated");
  return (await asked.catch((error: unknown) => String(error).match(/^(?:.*: )?(no)$/m)?.[1] ?? String(error))).trim();
}

test("grants the node its own Pods, status and lease, and nothing else", async () => {
  const user = `system:node:${node}`;
  expect(await can(user, "patch", `nodes/${node}`, "--subresource=status")).toBe("yes");
  expect(await can(user, "list", "pods")).toBe("yes");
  // Its permissions follow from its Pods, and it has none.
  expect(await can(user, "patch", "pods", "--subresource=status")).toBe("no");
  expect(await can(user, "get", "secrets")).toBe("no");
  expect(await can(user, "patch", `leases/${node}`, "-n", "kube-node-lease")).toBe("yes");
  expect(await can(user, "patch", "nodes/other", "--subresource=status")).toBe("no");
  expect(await can(user, "patch", "leases/other", "-n", "kube-node-lease")).toBe("no");
  expect(await can(user, "patch", `leases/${node}`, "-n", "default")).toBe("no");
  expect(await can(user, "create", "pods")).toBe("no");
  expect(await can(user, "create", "pods", "--subresource=exec")).toBe("no");
  expect(await can(user, "update", "secrets")).toBe("no");
  expect(await can(user, "create", "clusterrolebindings")).toBe("no");
});

test("denies the controllers Secrets and RBAC changes, and the garbage collector any create", async () => {
  const controllers = "system:kube-controller-manager";
  expect(await can(controllers, "create", "pods")).toBe("yes");
  expect(await can(controllers, "get", "secrets")).toBe("no");
  expect(await can(controllers, "update", "clusterroles")).toBe("no");
  expect(await can(controllers, "impersonate", "users")).toBe("no");
  const collector = "system:serviceaccount:kube-system:generic-garbage-collector";
  expect(await can(collector, "delete", "configmaps")).toBe("yes");
  expect(await can(collector, "create", "pods")).toBe("no");
  expect(await can(collector, "impersonate", "users")).toBe("no");
  expect(await can(collector, "escalate", "clusterroles.rbac.authorization.k8s.io")).toBe("no");
});

test("runs every kind of workload with these permissions and without a single rejection", { timeout: 120_000 }, async () => {
  const { kubectl } = keelson;
  const container = ["--image=none", "--", "/bin/sh", "-c", "sleep 1000"];
  await kubectl("create", "namespace", "work");
  await kubectl("create", "deployment", "d", "-n", "work", "--replicas=2", ...container);
  await kubectl("expose", "deployment", "d", "-n", "work", "--port=80");
  await kubectl("create", "job", "j", "-n", "work", "--image=none", "--", "/bin/sh", "-c", "exit 0");
  await kubectl("rollout", "status", "deployment/d", "-n", "work", "--timeout=45s");
  await kubectl("wait", "job/j", "-n", "work", "--for=condition=Complete", "--timeout=45s");
  await kubectl("delete", "deployment", "d", "-n", "work", "--cascade=foreground", "--timeout=45s");
  await kubectl("delete", "namespace", "work", "--timeout=45s");
  expect(readFileSync(join(keelson.dataDir, "keelson.log"), "utf8")).not.toMatch(/forbidden/i);
});
