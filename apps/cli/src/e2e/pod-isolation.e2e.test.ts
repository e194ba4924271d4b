import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/*
 * The attack of SECURITY.md: the admin of one namespace tries to read the kubeconfig of the cluster's admin from a Pod.
 */

const folder = temporaryFolder();
let keelson: TestKeelson;
let secret: string;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
  secret = join(keelson.dataDir, "kubeconfig");
  await keelson.kubectl("create", "namespace", "team");
  await keelson.kubectl("-n", "team", "create", "rolebinding", "dev", "--clusterrole=admin", "--user=dev");
});
afterAll(async () => {
  await keelson.kubectl("-n", "team", "delete", "deployment,pod", "--all", "--grace-period=1");
  await keelson[Symbol.asyncDispose]();
});

const asDev = (...args: string[]): Promise<string> => keelson.kubectl("--as=dev", "-n", "team", ...args);
const runtimeOf = (...selector: string[]): Promise<string> =>
  keelson.kubectl(
    "-n",
    "team",
    "get",
    "pod",
    ...selector,
    "-o",
    "jsonpath={.items[*].spec.runtimeClassName}{.spec.runtimeClassName}",
  );
const ended = (name: string): Promise<string> =>
  keelson.kubectl("-n", "team", "wait", `pod/${name}`, "--for=jsonpath={.status.phase}=Failed", "--timeout=40s");

test("a Pod of a namespace's admin cannot read the cluster's kubeconfig", async () => {
  await asDev("run", "thief", "--image=none", "--restart=Never", "--command", "--", "cat", secret);
  expect(await runtimeOf("thief")).toBe("bubblewrap");
  await ended("thief");
  const log = await asDev("logs", "thief");
  expect(log).toMatch(/No such file|Permission denied/);
  expect(log).not.toContain("client-key-data");
});

test("neither can the Pods of a Deployment of a namespace's admin", async () => {
  await asDev("create", "deployment", "thieves", "--image=none", "--", "sh", "-c", `cat ${secret}; sleep 600`);
  await asDev("rollout", "status", "deployment/thieves", "--timeout=40s");
  expect(await runtimeOf("-l", "app=thieves")).toBe("bubblewrap");
  expect(await asDev("logs", "deployment/thieves")).not.toContain("client-key-data");
});

test("a namespace's admin cannot ask for a process, mount host paths, or run commands in a process of the cluster's admin", async () => {
  const overrides = (spec: object): string => `--overrides=${JSON.stringify({ spec })}`;
  const run = (name: string, spec: object): Promise<string> =>
    asDev("run", name, "--image=none", overrides(spec), "--command", "--", "true");
  await expect(run("bare", { runtimeClassName: "process" })).rejects.toThrow(/requires verb "use" on runtimeclasses/);
  const containers = [{ name: "c", image: "none", command: ["true"], volumeMounts: [{ name: "v", mountPath: "/v" }] }];
  const volumes = [{ name: "v", hostPath: { path: keelson.dataDir } }];
  await expect(run("host", { volumes, containers })).rejects.toThrow(/hostPath volumes require/);
  await keelson.kubectl("-n", "team", "run", "trusted", "--image=none", "--command", "--", "sleep", "600");
  await keelson.kubectl("-n", "team", "wait", "pod/trusted", "--for=condition=Ready", "--timeout=40s");
  expect(await runtimeOf("trusted")).toBe("");
  expect(await keelson.kubectl("-n", "team", "exec", "trusted", "--", "cat", secret)).toContain("client-key-data");
  await expect(asDev("exec", "trusted", "--", "cat", secret)).rejects.toThrow(/runs as a process of the node/);
});
