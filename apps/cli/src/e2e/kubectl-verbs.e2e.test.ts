import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kubectlMinorVersion, kubectlWaitForField } from "../testing/kubectl-version.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;
let minor: number;
const kubectl = (...args: string[]): Promise<string> => keelson.kubectl(...args);
const waitForField = (object: string, path: string, value: string): Promise<void> =>
  kubectlWaitForField(keelson.kubeconfig, [object], path, value);

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "apiserver,cluster");
  minor = await kubectlMinorVersion();
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function manifest(name: string, text: string): string {
  const file = join(folder.path, `${name}.yaml`);
  writeFileSync(file, text);
  return file;
}

const deployment = (name: string, value: string): string => `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ${name}, labels: {app: ${name}}}
spec:
  replicas: 2
  selector: {matchLabels: {app: ${name}}}
  template:
    metadata: {labels: {app: ${name}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: any, command: [sleep, "1000"], env: [{name: A, value: "${value}"}]}]
`;
const valueOfA = '{.spec.template.spec.containers[0].env[?(@.name=="A")].value}';

describe("kubectl and a Deployment", () => {
  test("rolls out, shows its history, and rolls back", async () => {
    await kubectl("apply", "-f", manifest("web", deployment("web", "1")));
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=40s")).toContain("successfully rolled out");
    const changed = manifest("web", deployment("web", "2"));
    // kubectl diff exits with 1 on a difference; the error carries its output.
    await expect(kubectl("diff", "-f", changed)).rejects.toThrow(/-\s+value: "1"\n\+\s+value: "2"/);
    expect(await kubectl("apply", "-f", changed)).toContain("configured");
    expect(await kubectl("diff", "-f", changed)).toBe("");
    await kubectl("rollout", "status", "deployment/web", "--timeout=40s");
    await kubectl("annotate", "deployment", "web", "kubernetes.io/change-cause=second");
    await waitForField(
      "deployment/web",
      ".status.observedGeneration",
      await kubectl("get", "deploy", "web", "-o", "jsonpath={.metadata.generation}"),
    );
    expect(await kubectl("rollout", "history", "deployment/web")).toMatch(/^1 +<none>\n2 +/m);
    expect(await kubectl("rollout", "history", "deployment/web", "--revision=2")).toMatch(/A:\s+2/);
    await kubectl("rollout", "undo", "deployment/web");
    expect(await kubectl("get", "deployment", "web", "-o", `jsonpath=${valueOfA}`)).toBe("1");
    await kubectl("rollout", "status", "deployment/web", "--timeout=40s");
    for (const verb of ["restart", "pause", "resume"]) await kubectl("rollout", verb, "deployment/web");
    await kubectl("rollout", "status", "deployment/web", "--timeout=40s");
  });

  test("scales, with and without a precondition, and waits for the rollout", async () => {
    await kubectl("apply", "-f", manifest("scaled", deployment("scaled", "1")));
    await kubectl("scale", "deployment", "scaled", "--replicas=3");
    await waitForField("deployment/scaled", ".status.readyReplicas", "3");
    await kubectl("wait", "--for=condition=Available", "deployment/scaled", "--timeout=40s");
    await expect(kubectl("scale", "deployment", "scaled", "--current-replicas=9", "--replicas=1")).rejects.toThrow(
      /Expected replicas to be 9, was 3/,
    );
    expect(await kubectl("get", "deployment", "scaled", "-o", "wide")).toMatch(
      /^NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR\nscaled +3\/3 +3 +3 +\S+ +main +any +app=scaled$/m,
    );
    const columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase";
    expect(await kubectl("get", "pods", "-l", "app=scaled", "-o", columns)).toMatch(
      /^NAME +PHASE\n(scaled-\S+ +Running\n){3}$/,
    );
    const paged = ["-A", "-l", "app=scaled", "--field-selector=status.phase=Running", "--chunk-size=1", "-o", "name"];
    expect((await kubectl("get", "pods", ...paged)).trim().split("\n")).toHaveLength(3);
    await expect(kubectl("get", "pods", "--field-selector=spec.bogus=1")).rejects.toThrow(/field selector|field label/);
  });

  test("accepts every patch type", async () => {
    await kubectl("apply", "-f", manifest("patched", deployment("patched", "1")));
    const strategic = { spec: { template: { spec: { containers: [{ name: "main", env: [{ name: "B", value: "2" }] }] } } } };
    await kubectl("patch", "deployment", "patched", "-p", JSON.stringify(strategic));
    const names = "jsonpath={.spec.template.spec.containers[0].env[*].name}";
    expect((await kubectl("get", "deployment", "patched", "-o", names)).split(" ").sort()).toEqual(["A", "B"]);
    await kubectl("patch", "deployment", "patched", "--type=merge", "-p", '{"metadata":{"labels":{"x":"y"}}}');
    const remove = '[{"op":"remove","path":"/metadata/labels/x"}]';
    await kubectl("patch", "deployment", "patched", "--type=json", "-p", remove);
    await expect(kubectl("patch", "deployment", "patched", "--type=json", "-p", remove)).rejects.toThrow(
      /The request is invalid/,
    );
    // An object whose status no controller writes.
    await kubectl("create", "configmap", "still");
    expect(await kubectl("patch", "configmap", "still", "--type=merge", "-p", "{}")).toContain("patched (no change)");
    await kubectl("set", "env", "deployment/patched", "A=7");
    await kubectl("set", "image", "deployment/patched", "main=other");
    expect(await kubectl("get", "deployment", "patched", "-o", `jsonpath=${valueOfA}`)).toBe("7");
    await kubectl("delete", "deployment/patched", "configmap/still");
  });

  test("is deleted with and without its dependents", async () => {
    await kubectl("apply", "-f", manifest("kept", deployment("kept", "1")));
    await waitForField("deployment/kept", ".status.readyReplicas", "2");
    await kubectl("delete", "deployment", "kept", "--cascade=orphan");
    expect(await kubectl("get", "rs", "-l", "app=kept", "-o", "name")).toMatch(/^replicaset.apps\/kept-/);
    await kubectl("delete", "rs", "-l", "app=kept", "--cascade=foreground");
    expect(await kubectl("get", "rs,pods", "-l", "app=kept", "-o", "name")).toBe("");
    await kubectl("run", "forced", "--image=any", "--restart=Never", "--command", "--", "sleep", "1000");
    await kubectl("wait", "--for=condition=Ready", "pod/forced", "--timeout=40s");
    await kubectl("delete", "pod", "forced", "--force", "--grace-period=0");
    await expect(kubectl("get", "pod", "forced")).rejects.toThrow(/pods "forced" not found/);
  });
});

describe("kubectl and the node", () => {
  test("is cordoned, drained within disruption budgets, and uncordoned", async () => {
    await kubectl("apply", "-f", manifest("drained", deployment("drained", "1")));
    await waitForField("deployment/drained", ".status.readyReplicas", "2");
    await kubectl("create", "poddisruptionbudget", "drained", "--selector=app=drained", "--min-available=2");
    await waitForField("pdb/drained", ".status.currentHealthy", "2");
    const node = (await kubectl("get", "nodes", "-o", "name")).trim();
    const name = node.replace("node/", "");
    expect(await kubectl("cordon", name)).toContain("cordoned");
    expect(await kubectl("get", "nodes")).toContain("SchedulingDisabled");
    const drain = ["drain", name, "--pod-selector=app=drained", "--ignore-daemonsets", "--force"];
    await expect(kubectl(...drain, "--timeout=3s")).rejects.toThrow(
      /Cannot evict pod as it would violate the pod's disruption budget/,
    );
    await waitForField("deployment/drained", ".status.readyReplicas", "2");
    await kubectl("patch", "pdb", "drained", "--type=merge", "-p", '{"spec":{"minAvailable":0}}');
    await waitForField("pdb/drained", ".status.disruptionsAllowed", "2");
    expect(await kubectl(...drain, "--timeout=45s")).toContain("drained");
    // The replacement Pods wait for a schedulable node.
    await waitForField("pdb/drained", ".status.currentHealthy", "0");
    expect(await kubectl("uncordon", name)).toContain("uncordoned");
    await waitForField("deployment/drained", ".status.readyReplicas", "2");
    await kubectl("delete", "deployment,pdb", "drained");
  }, 180_000);
});

test("applies a kustomization, labels the object, prints it with a template, and replaces it by force", async () => {
  const base = join(folder.path, "kustomized");
  mkdirSync(base);
  writeFileSync(join(base, "kustomization.yaml"), "namePrefix: pre-\nresources: [map.yaml]\n");
  writeFileSync(join(base, "map.yaml"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: map}, data: {a: one}}");
  expect(await kubectl("apply", "-k", base)).toContain("configmap/pre-map created");
  await kubectl("label", "configmap", "pre-map", "tier=web");
  await expect(kubectl("label", "configmap", "pre-map", "tier=db")).rejects.toThrow(/--overwrite is false/);
  await kubectl("label", "configmap", "pre-map", "tier=db", "--overwrite");
  await kubectl("annotate", "configmap", "pre-map", "note=1");
  await kubectl("annotate", "configmap", "pre-map", "note=2", "--overwrite");
  const template = "go-template={{.data.a}} {{.metadata.labels.tier}} {{.metadata.annotations.note}} {{.metadata.uid}}";
  const before = (await kubectl("get", "configmap", "pre-map", "-o", template)).split(" ");
  expect(before.slice(0, 3)).toEqual(["one", "db", "2"]);
  const other = manifest("other", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pre-map}\ndata: {a: two}\n");
  expect(await kubectl("replace", "--force", "-f", other)).toContain("configmap/pre-map replaced");
  const after = (await kubectl("get", "configmap", "pre-map", "-o", "go-template={{.data.a}} {{.metadata.uid}}")).split(" ");
  expect(after[0]).toBe("two");
  expect(after[1]).not.toBe(before[3]);
  await kubectl("delete", "-k", base);
});

test("taints a node and exposes a Pod", async () => {
  const node = (await kubectl("get", "nodes", "-o", "name")).trim().replace("node/", "");
  await kubectl("taint", "node", node, "kind=test:PreferNoSchedule");
  await expect(kubectl("taint", "node", node, "kind=other:PreferNoSchedule")).rejects.toThrow(/--overwrite is false/);
  await kubectl("taint", "node", node, "kind=other:PreferNoSchedule", "--overwrite");
  const values = "jsonpath={.spec.taints[*].value}";
  expect(await kubectl("get", "node", node, "-o", values)).toBe("other");
  await kubectl("taint", "node", node, "kind-");
  expect(await kubectl("get", "node", node, "-o", values)).toBe("");
  await kubectl("run", "exposed", "--image=any", "--port=8080", "--labels=app=exposed", "--dry-run=server");
  await kubectl("create", "deployment", "exposed", "--image=any", "--replicas=0");
  expect(await kubectl("expose", "deployment", "exposed", "--port=80", "--target-port=8080")).toContain("exposed");
  const fields = "jsonpath={.spec.selector.app}:{.spec.ports[0].port}>{.spec.ports[0].targetPort}";
  expect(await kubectl("get", "service", "exposed", "-o", fields)).toBe("exposed:80>8080");
  await kubectl("delete", "deployment,service", "exposed");
});

test("lists, describes and explains every served kind", async () => {
  const rows = (await kubectl("api-resources", "--verbs=list", "--no-headers")).trim().split("\n");
  expect(rows.length).toBeGreaterThan(30);
  const versions = (await kubectl("api-versions")).trim().split("\n");
  expect(versions).toEqual(expect.arrayContaining(["v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"]));
  // kubectl 1.20 describes these through beta versions that Kubernetes 1.35 no longer serves.
  const unknownToOld = /^(cronjobs|poddisruptionbudgets|endpointslices|horizontalpodautoscalers|ingresses|ingressclasses)\./;
  const kinds: string[] = [];
  const described: string[] = [];
  for (const row of rows) {
    // NAME, maybe SHORTNAMES, APIVERSION, NAMESPACED, KIND.
    const columns = row.split(/\s+/);
    const plural = columns[0] ?? "";
    const apiVersion = columns.at(-3) ?? "";
    const kind = apiVersion.includes("/") ? `${plural}.${apiVersion.split("/", 1)[0]}` : plural;
    kinds.push(kind);
    // kubectl before 1.33 describes ServiceCIDRs through a beta version as well.
    const isDescribed = kind.startsWith("servicecidrs.") ? minor >= 33 : minor >= 25 || !unknownToOld.test(kind);
    if (isDescribed) described.push(kind);
    expect(await kubectl("explain", plural, "--recursive", `--api-version=${apiVersion}`)).toMatch(/metadata\s+<\S+>/);
  }
  // One kubectl for all kinds: starting it takes longer than a request.
  await kubectl("get", kinds.join(","), "-A", "-o", "wide");
  await kubectl("describe", described.join(","), "-A");
}, 180_000);

test("creates an object whose CRD is in the same file on the second apply, and deletes both together", async () => {
  const both = manifest(
    "both",
    `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lanterns.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lanterns, singular: lantern, kind: Lantern}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {watts: {type: integer}}}}}}
---
apiVersion: example.com/v1
kind: Lantern
metadata: {name: one}
spec: {watts: 3}
`,
  );
  // kubectl maps all kinds before it creates the first object, against any API server.
  await expect(kubectl("apply", "-f", both)).rejects.toThrow(/no matches for kind "Lantern" in version "example.com\/v1"/);
  await kubectl("wait", "crd/lanterns.example.com", "--for=condition=Established", "--timeout=40s");
  const second = await kubectl("apply", "-f", both);
  expect(second).toMatch(/lanterns.example.com (unchanged|configured)/);
  expect(second).toContain("lantern.example.com/one created");
  expect(await kubectl("explain", "lantern.spec")).toMatch(/watts\s+<integer>/);
  await kubectl("delete", "lantern", "one");
  await kubectl("delete", "crd", "lanterns.example.com");
});

test("answers auth can-i from RBAC, and serves tokens, whoami and status patches to newer kubectl versions", async () => {
  expect((await kubectl("auth", "can-i", "create", "pods")).trim()).toBe("yes");
  expect(await kubectl("auth", "can-i", "--list")).toMatch(/^\*\.\* +\[\] +\[\] +\[\*\]$/m);
  await kubectl("create", "role", "reader", "--verb=get", "--resource=pods,deployments.apps");
  await kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:default");
  const robot = "--as=system:serviceaccount:default:default";
  expect((await kubectl("auth", "can-i", "get", "pods", robot)).trim()).toBe("yes");
  await expect(kubectl("auth", "can-i", "delete", "pods", robot)).rejects.toThrow(/no/);
  if (minor < 28) return;
  const token = await kubectl("create", "token", "default", "--duration=10m", "--audience=a");
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
  expect(claims).toMatchObject({ aud: ["a"], sub: "system:serviceaccount:default:default" });
  expect(claims.exp - claims.iat).toBe(600);
  await expect(kubectl("create", "token", "default", "--bound-object-kind=Secret", "--bound-object-name=nope")).rejects.toThrow(
    /secrets "nope" not found/,
  );
  expect(await kubectl("auth", "whoami")).toMatch(/Username\s+kubernetes-admin/);
  // The status of an active namespace is one that no controller writes.
  const patch = JSON.stringify({ status: { conditions: [{ type: "example.com/Seen", status: "True" }] } });
  await kubectl("patch", "namespace", "default", "--subresource=status", "--type=merge", "-p", patch);
  expect(await kubectl("get", "namespace", "default", "-o", "jsonpath={.status.conditions[0].type}")).toBe("example.com/Seen");
});

test("kubectl top shows what the node and its Pods use", async () => {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "measured" },
    spec: { containers: [{ name: "main", image: "any", command: ["sleep", "1000"] }] },
  };
  await kubectl("apply", "-f", manifest("measured", JSON.stringify(pod)));
  await kubectl("wait", "pod/measured", "--for=condition=Ready", "--timeout=40s");
  await expect
    .poll(() => kubectl("top", "pods", "--no-headers"), { timeout: 40_000, interval: 1_000 })
    .toMatch(/^measured +\d+m +\d+Mi/m);
  expect(await kubectl("top", "nodes", "--no-headers")).toMatch(/^\S+ +\d+m +\d+% +\d+Mi +\d+%/);
  await kubectl("delete", "pod", "measured");
}, 90_000);
