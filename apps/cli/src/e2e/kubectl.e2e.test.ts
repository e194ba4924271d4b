import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { kubectlMinorVersion, kubectlWaitForField } from "../testing/kubectl-version.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;
const kubectl = (...args: string[]): Promise<string> => keelson.kubectl(...args);

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path);
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const job = (name: string, more = ""): string => `
apiVersion: robot.k8s4r.io/v1alpha1
kind: Job
metadata: {name: ${name}}
spec:
  name: ${name}
  type: batch
  robotSelector: {env: nowhere}
  taskGroups:
    - name: g
      count: 1
      tasks:
        - name: t
          driver: exec
          config: {execConfig: {command: /bin/true}}
${more}`;

function manifest(name: string, text: string): string {
  const file = join(folder.path, `${name}.yaml`);
  writeFileSync(file, text);
  return file;
}

test("lists the robots' kinds with their short names in api-resources", async () => {
  const table = await kubectl("api-resources", "--api-group=robot.k8s4r.io");
  expect(table).toMatch(/^jobs +rjob +robot\.k8s4r\.io\/v1alpha1 +true +Job$/m);
  expect(table).toMatch(/^robots +rb +/m);
  const all = await kubectl("api-resources", "-o", "name");
  for (const name of [
    "configmaps",
    "secrets",
    "namespaces",
    "events",
    "leases.coordination.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
  ]) {
    expect(all.split("\n")).toContain(name);
  }
});

test("explains the fields of a kind", async () => {
  const text = await kubectl("explain", "job.spec", "--api-version=robot.k8s4r.io/v1alpha1");
  expect(text).toMatch(/robotSelector\s+<map\[string\]string>/);
  expect(text).toMatch(/taskGroups\s+<\[\]Object> -required-/);
});

test("applies a Job, prints the original's columns, edits, describes and deletes it with its dependents", async () => {
  await kubectl("apply", "-f", manifest("shown", job("shown")));
  await kubectlWaitForField(keelson.kubeconfig, ["rtask", "-l", "job=shown"], ".status.state", "pending");
  expect(
    (await kubectl("get", "rjob", "shown"))
      .split("\n")[0]
      ?.split(/\s{2,}/)
      .map((cell) => cell.trim()),
  ).toEqual(["NAME", "TYPE", "STATUS", "TOTAL", "SUCCEEDED", "FAILED", "RUNNING", "AGE"]);
  expect((await kubectl("get", "rtg")).split("\n")[0]).toMatch(/^NAME +JOB +STATE +TOTAL +RUNNING +SUCCEEDED +FAILED +AGE$/);
  expect((await kubectl("get", "rtask")).split("\n")[0]).toMatch(/^NAME +JOB +ROBOT +DRIVER +STATE +EXITCODE +RESTARTS +AGE$/);
  expect((await kubectl("get", "rb")).split("\n")[0] ?? "").toMatch(/^(NAME +ROBOTID +PHASE|)/);
  expect(await kubectl("apply", "-f", manifest("shown", job("shown", "  priority: 70\n")))).toContain("configured");
  const edited = await promisify(execFile)("kubectl", ["--kubeconfig", keelson.kubeconfig, "edit", "rjob", "shown"], {
    env: { ...process.env, KUBE_EDITOR: "sed -i 's/priority: 70/priority: 71/'" },
  });
  expect(edited.stdout).toContain("edited");
  expect(await kubectl("get", "rjob", "shown", "-o", "jsonpath={.spec.priority}")).toBe("71");
  expect(await kubectl("describe", "rjob", "shown")).toMatch(/Kind:\s+Job/);
  await kubectl("delete", "rjob", "shown", "--cascade=foreground");
  await kubectl("wait", "rtask", "-l", "job=shown", "--for=delete", "--timeout=45s").catch((error: unknown) => {
    // kubectl 1.20 fails if the objects are already deleted.
    if (!String(error).includes("no matching resources found")) throw error;
  });
  expect(await kubectl("get", "rtg,rtask", "-l", "job=shown", "-o", "name")).toBe("");
});

test("rejects a wrong type and a missing field with the field's path", async () => {
  const wrong = job("wrong").replace("count: 1", "count: many");
  await expect(kubectl("apply", "-f", manifest("wrong", wrong))).rejects.toThrow(/spec\.taskGroups\[0\]\.count/);
  const missing = job("missing").replace("          driver: exec\n", "");
  await expect(kubectl("apply", "-f", manifest("missing", missing))).rejects.toThrow(
    // The message is the server's, or that of kubectl 1.20, which validates against OpenAPI itself.
    /spec\.taskGroups\[0\]\.tasks\[0\](\.driver|\): missing required field "driver")/,
  );
  const unknown = job("unknown", "  robotSelektor: {}\n");
  await expect(kubectl("apply", "-f", manifest("unknown", unknown))).rejects.toThrow(/robotSelektor/);
  expect(await kubectl("get", "rjob", "-o", "name")).not.toMatch(/wrong|missing|unknown/);
});

test("reports the owner of a field in a server-side apply conflict", async () => {
  const file = manifest("owned", `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned}\ndata: {a: "1"}\n`);
  await kubectl("apply", "--server-side", "--field-manager=one", "-f", file);
  const other = manifest("other", `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned}\ndata: {a: "2"}\n`);
  await expect(kubectl("apply", "--server-side", "--field-manager=two", "-f", other)).rejects.toThrow(
    /conflict with "one"[\s\S]*\.data\.a/,
  );
  await kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", other);
  const shown = (await kubectlMinorVersion()) >= 21 ? ["--show-managed-fields"] : [];
  const managed = JSON.parse(await kubectl("get", "configmap", "owned", "-o", "json", ...shown));
  expect(managed.metadata.managedFields).toEqual([
    expect.objectContaining({ manager: "two", operation: "Apply", apiVersion: "v1", fieldsV1: { "f:data": { "f:a": {} } } }),
  ]);
});

test("prints changes with get -w and completes wait", async () => {
  await kubectl("create", "configmap", "watched");
  const watch = spawn("kubectl", ["--kubeconfig", keelson.kubeconfig, "get", "configmap", "watched", "-w", "--no-headers"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: watch.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toMatch(/^watched +0 /);
  await kubectl("patch", "configmap", "watched", "--type=merge", "-p", '{"data":{"a":"1","b":"2"}}');
  expect((await lines.next()).value).toMatch(/^watched +2 /);
  watch.kill("SIGINT");
  await once(watch, "exit");
  const waiting = kubectlWaitForField(keelson.kubeconfig, ["configmap/watched"], ".data.c", "3");
  await kubectl("patch", "configmap", "watched", "--type=json", "-p", '[{"op":"add","path":"/data/c","value":"3"}]');
  await waiting;
});

test("reads and writes Secrets, Leases, Events and Namespaces, and deletes a Namespace with its content", async () => {
  await kubectl("create", "namespace", "short");
  await kubectl("create", "secret", "generic", "s", "-n", "short", "--from-literal=k=v");
  expect(await kubectl("get", "secret", "s", "-n", "short", "-o", "jsonpath={.data.k}")).toBe("dg==");
  await kubectlWaitForField(
    keelson.kubeconfig,
    ["serviceaccount", "-n", "short", "--field-selector=metadata.name=default"],
    ".metadata.name",
    "default",
  );
  await kubectl(
    "apply",
    "-f",
    manifest(
      "lease",
      `apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l, namespace: short}\nspec: {holderIdentity: me, leaseDurationSeconds: 15}\n`,
    ),
  );
  expect(await kubectl("get", "lease", "l", "-n", "short", "--no-headers")).toMatch(/^l +me /);
  await kubectl("get", "events", "-A");
  await kubectl("delete", "namespace", "short", "--timeout=45s");
  await expect(kubectl("get", "namespace", "short")).rejects.toThrow(/NotFound/);
});

test("serves a new CRD immediately and deletes it with its objects", async () => {
  const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, shortNames: [lp]}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {watts: {type: integer, default: 40, maximum: 100}}}}}}
`;
  await kubectl("apply", "-f", manifest("crd", crd));
  await kubectl("wait", "crd/lamps.example.com", "--for=condition=Established", "--timeout=45s");
  const lamp = (name: string, spec: string): string =>
    manifest(name, `apiVersion: example.com/v1\nkind: Lamp\nmetadata: {name: ${name}}\nspec: ${spec}\n`);
  await kubectl("apply", "-f", lamp("one", "{}"));
  expect(await kubectl("get", "lp", "one", "-o", "jsonpath={.spec.watts}")).toBe("40");
  await expect(kubectl("apply", "-f", lamp("two", "{watts: 400}"))).rejects.toThrow(/spec\.watts.*less than or equal to 100/);
  await kubectl("delete", "crd", "lamps.example.com", "--timeout=45s");
  await expect(kubectl("get", "lamps")).rejects.toThrow(/doesn't have a resource type|could not find/);
});
