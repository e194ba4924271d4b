import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
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
  folder[Symbol.dispose]();
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
const isRoot = process.getuid?.() === 0;
const succeeded = (name: string): Promise<string> =>
  keelson.kubectl("-n", "team", "wait", `pod/${name}`, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=40s");
async function applyAsDev(...objects: readonly object[]): Promise<void> {
  const file = join(folder.path, "objects.yaml");
  writeFileSync(file, objects.map((each) => stringify(each)).join("---\n"));
  await asDev("apply", "-f", file);
}
/** A Pod of a namespace's admin whose containers run shell scripts, one after the other. */
const podOf = (name: string, scripts: readonly string[], volumes: readonly { readonly name: string }[] = []): object => {
  const volumeMounts = volumes.map((volume) => ({ name: volume.name, mountPath: `/${volume.name}` }));
  const containers = scripts.map((script, index) => ({
    name: `c${index}`,
    image: "none",
    command: ["/bin/sh", "-c", script],
    volumeMounts,
  }));
  const spec = { restartPolicy: "Never", initContainers: containers.slice(0, -1), containers: containers.slice(-1), volumes };
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
};
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

test.runIf(isRoot)(
  "an isolated Pod reads no private file of the host, wherever it is, and is not the host's root",
  async () => {
    const secrets = ["/usr/local/share", "/usr/lib", "/etc/ssl", "/opt", "/root", "/var/lib"].map((parent) => {
      const secret = mkdtempSync(join(parent, "keelson-boundary-"));
      onTestFinished(() => rmSync(secret, { recursive: true, force: true }));
      writeFileSync(join(secret, "key"), "PRIVATE", { mode: 0o600 });
      return join(secret, "key");
    });
    const paths = [
      "/etc/shadow",
      "/etc/gshadow",
      "/etc/ssl/private",
      "/etc/ssh",
      "/root",
      "/home",
      "/opt",
      "/var/lib",
      ...secrets,
    ];
    const script = `for path in ${paths.join(" ")}; do ls -A $path/ 2>/dev/null; cat $path 2>/dev/null; done; read -r in out count </proc/self/uid_map; echo $in; [ $out != 0 ] && echo $(id -u) is not root`;
    await applyAsDev(podOf("reader", [script]));
    await succeeded("reader");
    expect(await asDev("logs", "reader")).toBe("0\n0 is not root\n");
  },
);

test("isolated Pods of a namespace read their Secrets and share their volumes", async () => {
  await asDev("create", "secret", "generic", "own", "--from-literal=key=value");
  const claim = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "shared" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } },
  };
  const volumes = [
    { name: "secret", secret: { secretName: "own", defaultMode: 0o400 } },
    { name: "scratch", emptyDir: {} },
    { name: "claim", persistentVolumeClaim: { claimName: "shared" } },
  ];
  const write = "umask 077; mkdir /scratch/a /claim/a && echo one >/scratch/a/file && echo one >/claim/a/file";
  const append =
    "cat /secret/key; echo; echo two >>/scratch/a/file; echo two >>/claim/a/file; cat /scratch/a/file /claim/a/file";
  await applyAsDev(claim, podOf("writer", [write, append], volumes));
  await succeeded("writer");
  expect(await asDev("logs", "writer", "-c", "c1")).toBe("value\none\ntwo\none\ntwo\n");
  await applyAsDev(podOf("other", ["echo three >>/claim/a/file; cat /claim/a/file"], volumes));
  await succeeded("other");
  expect(await asDev("logs", "other")).toBe("one\ntwo\nthree\n");
});
