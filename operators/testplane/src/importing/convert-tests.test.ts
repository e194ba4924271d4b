import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { garbageCollection } from "@keelson/cluster/testing";
import { silentLogger } from "@keelson/controller";
import type { CommandContext, FlagValues } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { importCommand } from "../commands/import.ts";
import { parseTests } from "../commands/test-files.ts";
import { startTestplaneEnvironment, type TestplaneEnvironment } from "../testing/testplane-environment.ts";
import { convertTests } from "./convert-tests.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "testplane-import-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Writes files below the directory. */
function write(files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

/** A test of chainsaw with these fields of its spec. */
const chainsaw = (name: string, spec: string): string => `
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: { name: ${name} }
spec:
${spec.replaceAll(/^/gm, "  ")}
`;
/** A test of chainsaw with these operations. */
const operations = (name: string, text: string): string => chainsaw(name, `steps:\n- try:\n${text.replaceAll(/^/gm, "  ")}`);

const box = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: box }, data: { size: small } }";
const bigBox = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: box }, data: { weight: heavy } }";

/** Ten tests in the shape of chainsaw's own examples. */
const tests: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "manifests in the test": {
    "chainsaw-test.yaml": operations("inline", `- apply: { resource: ${box} }\n- assert: { resource: ${box} }`),
  },
  "manifests in files": {
    "chainsaw-test.yaml": operations("files", "- apply: { file: boxes.yaml }\n- assert: { file: boxes.yaml }"),
    "boxes.yaml": `${box}\n---\n${box.replace("name: box", "name: box-2")}\n`,
  },
  deletions: {
    "chainsaw-test.yaml": operations(
      "deletes",
      `- apply: { file: box.yaml }
- delete: { ref: { apiVersion: v1, kind: ConfigMap, name: box } }
- wait: { apiVersion: v1, kind: ConfigMap, name: box, timeout: 1m, for: { deletion: {} } }
- create: { file: box.yaml }
- wait: { apiVersion: v1, kind: ConfigMap, name: box, for: { jsonPath: { path: "{.data.size}", value: small } } }
- delete: { file: box.yaml }`,
    ),
    "box.yaml": box,
  },
  patches: {
    "chainsaw-test.yaml": operations(
      "patches",
      `- apply: { resource: ${box} }
- patch: { resource: ${bigBox} }
- assert: { resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: box }, data: { size: small, weight: heavy } } }
- apply:
    resource:
      { apiVersion: v1, kind: Pod, metadata: { name: patched }, spec: { containers: [{ name: main, image: none }] } }
- patch:
    subresource: status
    resource:
      apiVersion: v1
      kind: Pod
      metadata: { name: patched }
      status: { conditions: [{ type: Own, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }] }
- wait: { apiVersion: v1, kind: Pod, name: patched, for: { condition: { name: Own } } }`,
    ),
  },
  "updates, and what must not exist": {
    "chainsaw-test.yaml": operations(
      "updates",
      `- apply: { resource: ${box} }
- error: { resource: ${bigBox} }
- update: { resource: ${bigBox} }
- assert: { resource: ${bigBox} }
- error: { resource: ${box} }
- error: { resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: nowhere } } }`,
    ),
  },
  lists: {
    "chainsaw-test.yaml": operations(
      "lists",
      `- apply: { file: list.yaml }
- assert: { resource: { apiVersion: v1, kind: ConfigMap, metadata: { labels: { set: both } }, data: { key: b } } }
- assert:
    resource: { apiVersion: v1, kind: ConfigMap, metadata: { labels: { set: { "(starts_with(@, 'bo'))": true } } }, data: { key: b } }`,
    ),
    "list.yaml": `apiVersion: v1
kind: List
items:
- { apiVersion: v1, kind: ConfigMap, metadata: { name: box-a, labels: { set: both } }, data: { key: a } }
- { apiVersion: v1, kind: ConfigMap, metadata: { name: box-b, labels: { set: both } }, data: { key: b } }
`,
  },
  "bindings and templates": {
    "chainsaw-test.yaml": chainsaw(
      "templates",
      `bindings:
- { name: base, value: 40 }
- { name: title, value: ($test.metadata.name) }
- { name: full, value: "(join('-', [$namespace, 'box']))" }
steps:
- bindings: [{ name: more, value: 2 }]
  try:
  - apply:
      bindings: [{ name: sum, value: ($base + $more) }]
      resource:
        { apiVersion: v1, kind: ConfigMap, metadata: { name: ($full), labels: { title: ($title) } }, data: { sum: (to_string($sum)), it.is: quoted } }
- try:
  - assert:
      resource:
        apiVersion: v1
        kind: ConfigMap
        metadata: { name: ($full), labels: { title: templates } }
        data: { sum: "42", (length(@) == \`2\`): true, it.is: "(join('', ['quo', 'ted']))" }`,
    ),
  },
  "outputs and expressions": {
    "chainsaw-test.yaml": operations(
      "outputs",
      `- apply: { resource: ${box}, outputs: [{ name: box, value: (@) }] }
- assert: { resource: { ($box): { kind: ConfigMap, data: { size: small } }, (length($box.data.size) > \`4\`): true } }
- assert:
    resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: box }, data: { size: ($box.data.size) } }`,
    ),
  },
  "expected errors, catch and finally": {
    "chainsaw-test.yaml": chainsaw(
      "negative",
      `catch: [{ events: {} }]
steps:
- try:
  - apply:
      resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: Not-A-Name } }
      expect: [{ check: { ($error != null): true } }]
  - sleep: { duration: 10ms }
  catch: [{ sleep: { duration: 1ms } }]
  finally: [{ create: { resource: ${box} } }]`,
    ),
  },
  "definitions of kinds, scenarios and merge keys": {
    "chainsaw-test.yaml": chainsaw(
      "scenarios",
      `scenarios: [{ bindings: [{ name: colour, value: red }] }, { bindings: [{ name: colour, value: blue }] }]
steps:
- try:
  - apply:
      resource: &box { apiVersion: v1, kind: ConfigMap, metadata: { name: painted }, data: { colour: ($colour) } }
  - assert:
      timeout: 20s
      resource: { <<: *box, data: { colour: ($colour) } }`,
    ),
  },
};

describe("tests of chainsaw", () => {
  const rbac = (kind: string, plural: string): ResourceType => ({
    ...{ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" },
  });

  /** Lets the tests of the ServiceAccount `tester` do anything. */
  async function grantAll({ client }: TestplaneEnvironment): Promise<void> {
    const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }];
    const metadata = { name: "tester" };
    await client.create(rbac("ClusterRole", "clusterroles"), { metadata, rules } as unknown as KubernetesObject);
    await client.create(rbac("ClusterRoleBinding", "clusterrolebindings"), {
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "tester" },
      subjects: [{ kind: "ServiceAccount", name: "tester", namespace: "default" }],
    } as unknown as KubernetesObject);
  }

  it("are converted completely, and pass in their own namespaces", { timeout: 60_000 }, async () => {
    for (const [title, files] of Object.entries(tests))
      write(Object.fromEntries(Object.entries(files).map(([name, content]) => [`${title}/${name}`, content])));
    const converted = await convertTests([folder], { serviceAccount: "tester" });
    expect(converted.map(({ name, problems }) => [name, problems])).toEqual(converted.map(({ name }) => [name, []]));
    expect(converted).toHaveLength(Object.keys(tests).length);
    await using environment = await startTestplaneEnvironment(undefined, [garbageCollection]);
    await grantAll(environment);
    const parsed = converted.flatMap(({ yaml, path }) => parseTests(yaml, path).tests);
    // The namespaces are not deleted: nothing empties them without the controllers of a cluster.
    for (const { name, spec } of parsed)
      await environment.client.create(IntegrationTest, {
        metadata: { name, namespace: "default" },
        spec: { ...spec, cleanupPolicy: "Never" } as never,
      });
    for (const { name } of parsed) {
      const done = await environment.until(IntegrationTest, name, (each) => each?.status?.completionTime !== undefined);
      expect(done?.status?.verdict, `${name}: ${done?.status?.message ?? ""}`).toBe("Passed");
    }
  });

  it("fail after the conversion if their assertions do not hold", async () => {
    write({
      "chainsaw-test.yaml": operations("fails", `- apply: { resource: ${box} }\n- error: { timeout: 1s, resource: ${box} }`),
      "other/chainsaw-test.yaml": operations(
        "other",
        `- apply: { resource: ${box.replace("name: box", "name: other")} }\n- assert: { timeout: 1s, resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: other }, data: { (length(size)): 4 } } }`,
      ),
    });
    await using environment = await startTestplaneEnvironment();
    const converted = (await convertTests([folder], {})).flatMap(({ yaml, path }) => parseTests(yaml, path).tests);
    for (const { name, spec } of converted)
      await environment.client.create(IntegrationTest, { metadata: { name, namespace: "default" }, spec: spec as never });
    for (const name of ["fails", "other"]) {
      const done = await environment.until(IntegrationTest, name, (each) => each?.status?.completionTime !== undefined);
      expect(done?.status?.verdict).toBe("Timeout");
    }
  });

  it("names the cluster of its test, step or operation, and its kubeconfig", async () => {
    const apply = (cluster: string) => `{ apply: { ${cluster}resource: ${box} } }`;
    const steps = `steps: [{ cluster: near, try: [${apply("cluster: far, ")}, ${apply("")}] }, { try: [${apply("")}] }]`;
    write({
      "chainsaw-test.yaml": `apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: { name: far }\nspec:\n  cluster: third\n  ${steps}\n`,
    });
    const [converted] = await convertTests([folder], { serviceAccount: "tester" });
    expect(converted?.problems).toEqual([]);
    const { spec } = parseTests(converted?.yaml ?? "", "x.yaml").tests[0] ?? {};
    expect((spec as IntegrationTest["spec"]).steps.map(({ cluster }) => cluster)).toEqual(["far", "near", "third"]);
    expect(spec).toMatchObject({
      clusters: ["far", "near", "third"].map((name) => ({ name, kubeconfigSecret: { name: `${name}-kubeconfig` } })),
    });
  });

  it.each([
    ["a template of steps", "steps: [{ use: { template: t.yaml } }]", "step 1: use: step templates are not converted"],
    [
      "another cluster without a ServiceAccount",
      `steps: [{ try: [{ apply: { cluster: far, resource: ${box} } }] }]`,
      "spec.clusters: requires --service-account",
    ],
    [
      "a script of another cluster",
      "steps: [{ cluster: far, try: [{ script: { content: 'true' } }] }]",
      "step 1: script: scripts run only in the test's own cluster",
    ],
    [
      "a cluster whose name cannot be kept",
      `cluster: Far_1\nsteps: [{ try: [{ apply: { resource: ${box} } }] }]`,
      'step 1: apply: cluster: "Far_1" is not a valid DNS label; rename the cluster',
    ],
    ["an unknown field", "namespaceTemplate: {}\nsteps: []", "spec.namespaceTemplate: has no counterpart"],
    ["a missing file", "steps: [{ try: [{ apply: { file: none.yaml } }] }]", "step 1: apply: none.yaml cannot be read"],
    [
      "an iteration",
      "steps: [{ try: [{ assert: { resource: { apiVersion: v1, kind: Pod, metadata: { name: a }, spec: { ~.(containers): { image: a } } } } }] }]",
      "~.(containers): iterations and named values have no counterpart",
    ],
    [
      "a query of the cluster",
      "steps: [{ try: [{ assert: { resource: { \"(x_k8s_list($client, 'v1', 'Node'))\": {} } } }] }]",
      "$client is not available",
    ],
    [
      "an error text that another server does not have",
      `steps: [{ try: [{ apply: { resource: ${box}, expect: [{ check: { ($error): no } }] } }] }]`,
      "expect: only ($error != null) is converted",
    ],
    [
      "a proxy",
      "steps: [{ try: [{ proxy: { apiVersion: v1, kind: Pod, name: a } }] }]",
      "proxy: this operation has no counterpart",
    ],
    [
      "a wait for all objects",
      "steps: [{ try: [{ wait: { apiVersion: v1, kind: Pod, for: { condition: { name: Ready } } } }] }]",
      "a wait for all objects has no counterpart: one object that satisfies the checks would be enough",
    ],
    [
      "a step with an unknown field",
      "steps: [{ compiler: cel, try: [{ sleep: { duration: 1s } }] }]",
      "step 1: compiler: has no counterpart",
    ],
    [
      "a check without an expression",
      "steps: [{ try: [{ script: { content: 'true', check: { stdout: hello } } }] }]",
      "stdout: must be an expression",
    ],
    [
      "an assertion without an expression",
      "steps: [{ try: [{ assert: { resource: { data: { size: small } } } }] }]",
      "data: must be an expression",
    ],
    ["an empty check", "steps: [{ try: [{ script: { content: 'true', check: {} } }] }]", "check: must have at least one check"],
    ["an empty assertion", "steps: [{ try: [{ assert: { resource: {} } }] }]", "step 1: assert: must have at least one check"],
  ])("are marked if they have %s", async (_, spec, problem) => {
    write({ "chainsaw-test.yaml": chainsaw("partly", spec) });
    const [converted] = await convertTests([folder], {});
    expect(converted?.problems.join("\n")).toContain(problem);
    expect(converted?.yaml).toMatch(/^# Converted from .*\n# Not converted:\n# - /);
    expect(converted?.yaml).toContain(problem);
  });

  it.each([
    ["is not valid YAML", "a: [", /step 1: assert: .*bad\.yaml: .* at line 1/],
    ["contains no object", "# nothing", /step 1: assert: bad\.yaml: contains no object/],
  ])("are marked if a file of an assertion %s", async (_, content, problem) => {
    write({ "chainsaw-test.yaml": operations("unread", "- assert: { file: bad.yaml }"), "bad.yaml": content });
    const [converted] = await convertTests([folder], {});
    expect(converted?.problems.join("\n")).toMatch(problem);
  });

  it("keep the bindings of a step that have the name of another step's output", async () => {
    write({
      "chainsaw-test.yaml": chainsaw(
        "names",
        `steps:
- try:
  - script: { content: echo one, outputs: [{ name: text, value: ($stdout) }] }
- bindings: [{ name: text, value: two }]
  try:
  - sleep: { duration: 1s }
  - assert: { resource: { ($text): two } }`,
      ),
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.test["spec"]).toMatchObject({
      steps: [{}, {}, { expectations: { allOf: [{ cel: "'two' == 'two'" }] } }],
    });
  });

  it("keep the precedence of their expressions", async () => {
    write({
      "chainsaw-test.yaml": operations(
        "precedence",
        `- error: { resource: { apiVersion: v1, kind: ConfigMap, metadata: { name: box }, data: { (a == 'x' || b == 'y'): true, (c): z } } }
- assert: { resource: { "('a' == 'b')": "('c' != 'd')" } }`,
      ),
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.test["spec"]).toMatchObject({
      steps: [
        {
          expectations: {
            allOf: [
              {
                cel: "objects.size() == 0 || objects.all(each, !((each.data.a == 'x' || each.data.b == 'y') && each.data.c == 'z'))",
              },
            ],
          },
        },
        { expectations: { allOf: [{ cel: "('a' == 'b') == ('c' != 'd')" }] } },
      ],
    });
  });

  it("keep the timeouts of a step", async () => {
    write({
      "chainsaw-test.yaml": chainsaw(
        "timeouts",
        `timeouts: { assert: 10s }\nsteps:\n- timeouts: { assert: 3m }\n  try: [{ assert: { resource: ${box} } }]`,
      ),
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.test["spec"]).toMatchObject({ steps: [{ timeoutSeconds: 180 }] });
  });

  it("keep scripts with their checks, environment and outputs", async () => {
    write({
      "chainsaw-test.yaml": operations(
        "scripts",
        `- script:
    env: [{ name: GREETING, value: "(join(' ', ['hello', $namespace]))" }]
    content: echo $GREETING
    timeout: 90s
    check: { ($error == null): true, (trim_space($stdout)): hello }
    outputs: [{ name: text, value: ($stdout) }]
- command: { entrypoint: kubectl, args: [get, cm, -n, $NAMESPACE], check: { ($error != null): true, "(contains($stderr, 'top'))": true } }`,
      ),
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.problems).toEqual([]);
    expect(converted?.test["spec"]).toMatchObject({
      steps: [
        {
          script: {
            content: "echo $GREETING",
            env: [{ name: "GREETING", value: "${{ ['hello', test.namespace].join(' ') }}" }],
          },
          timeoutSeconds: 90,
          expectations: { allOf: [{ cel: "result.exitCode == 0" }, { cel: "result.stdout.trim() == 'hello'" }] },
          outputs: [{ name: "text", cel: "result.stdout" }],
        },
        {
          script: { content: 'kubectl "get" "cm" "-n" "$NAMESPACE"' },
          expectations: { allOf: [{ cel: "result.exitCode != 0" }, { cel: "result.stderr.contains('top')" }] },
        },
      ],
    });
  });
});

describe("tests of kuttl", () => {
  const files = {
    "boxes/00-install.yaml": box,
    "boxes/00-assert.yaml": `${box}\n---\n{ apiVersion: kuttl.dev/v1beta1, kind: TestAssert, timeout: 20, collectors: [{ type: pod }] }`,
    "boxes/00-errors.yaml": bigBox,
    "boxes/10-replace.yaml": `apiVersion: kuttl.dev/v1beta1
kind: TestStep
delete: [{ apiVersion: v1, kind: ConfigMap, name: box }]
---
${box.replace("name: box", "name: next")}`,
    "boxes/10-errors.yaml": "{ apiVersion: v1, kind: ConfigMap, metadata: { name: box } }",
  };

  it("are converted in the order of their files, and pass", async () => {
    write(files);
    const [converted, ...more] = await convertTests([folder], {});
    expect([converted?.name, converted?.problems, more]).toEqual(["boxes", [], []]);
    const [test] = parseTests(converted?.yaml ?? "", "boxes").tests;
    expect(test?.kind === "IntegrationTest" ? test.spec.steps.map(({ name }) => name) : []).toEqual([
      "0 install: apply ConfigMap box",
      "0 install: assert ConfigMap box",
      "0 install: no ConfigMap box",
      "10 replace: delete ConfigMap box",
      "10 replace: apply ConfigMap next",
      "10 replace: no ConfigMap box",
    ]);
    await using environment = await startTestplaneEnvironment();
    for (const { name, spec } of parseTests(converted?.yaml ?? "", "boxes").tests)
      await environment.client.create(IntegrationTest, { metadata: { name, namespace: "default" }, spec: spec as never });
    const done = await environment.until(IntegrationTest, "boxes", (each) => each?.status?.completionTime !== undefined);
    expect(done?.status?.verdict, done?.status?.message).toBe("Passed");
  });

  it("know assertions by the first word of the name of their file, in any case", async () => {
    write({
      "words/01-Install.yaml": box,
      "words/01-Assert.yaml": box,
      "words/01-assert-more.yaml": bigBox,
      "words/02-errors-pods.yaml": bigBox,
      "words/02-assertion.yaml": bigBox,
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.test["spec"]).toMatchObject({
      steps: [
        { name: "1 Install: apply ConfigMap box" },
        { name: "1 Install: assert ConfigMap box" },
        { name: "1 Install: assert ConfigMap box (2)" },
        { name: "2 assertion: apply ConfigMap box" },
        { name: "2 assertion: no ConfigMap box" },
      ],
    });
  });

  it("are marked if one of their files is not valid YAML", async () => {
    write({ "broken/00-install.yaml": box, "broken/00-assert.yaml": "a: [" });
    const [converted] = await convertTests([folder], {});
    expect(converted?.problems).toEqual([expect.stringMatching(/^00-assert\.yaml: .*00-assert\.yaml: .* at line 1/)]);
  });

  it("keep commands, and mark what has no counterpart", async () => {
    write({
      "run/00-run.yaml": `apiVersion: kuttl.dev/v1beta1
kind: TestStep
unitTest: true
commands:
- { command: kubectl get pods, namespaced: true, timeout: 9 }
- { script: exit 1, ignoreFailure: true }
- { script: sleep 9, background: true }`,
    });
    const [converted] = await convertTests([folder], {});
    expect(converted?.problems).toEqual([
      "0 run: unitTest: has no counterpart",
      "0 run: commands: programs in the background have no counterpart",
    ]);
    expect(converted?.test["spec"]).toMatchObject({
      steps: [
        { script: { content: 'kubectl get pods --namespace "$NAMESPACE"' }, timeoutSeconds: 9 },
        { script: { content: "exit 1" }, expectations: { allOf: [{ cel: "result.exitCode >= 0" }] } },
      ],
    });
  });
});

describe("keelson test import", () => {
  async function run(args: readonly string[], flags: FlagValues = {}) {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const context: CommandContext = {
      ...{ args, flags, stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal },
      client: () => Promise.reject(new Error("needs no cluster")),
    };
    const status = await importCommand.run(context);
    return { status, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
  }

  it("prints the tests, names what is missing, and fails only with --strict", async () => {
    write({
      "a/chainsaw-test.yaml": operations("same", `- apply: { resource: ${box} }`),
      "b/chainsaw-test.yaml": operations("same", `- apply: { resource: ${box} }\n- proxy: { kind: Pod }`),
    });
    const { status, stdout, stderr } = await run([folder]);
    expect(status).toBe(0);
    expect(parseTests(stdout, "out").tests.map(({ name }) => name)).toEqual(["same", "same-2"]);
    expect(stderr).toContain(
      "same-2: not converted: step 1: proxy: this operation has no counterpart\n1 of 2 tests converted completely\n",
    );
    expect((await run([folder], { strict: true })).status).toBe(1);
    expect((await run([join(folder, "a")], { strict: true })).status).toBe(0);
  });

  it("overwrites no file, not even of a test with the same name", async () => {
    const test = (name: string): string => operations(name, `- apply: { resource: ${box} }`);
    write({
      "a/chainsaw-test.yaml": test("same"),
      "b/chainsaw-test.yaml": test("same"),
      "c/chainsaw-test.yaml": test("same-2"),
    });
    const output = join(folder, "out");
    expect((await run([folder], { output })).status).toBe(0);
    expect(readdirSync(output).toSorted()).toEqual(["same-2-2.yaml", "same-2.yaml", "same.yaml"]);
    const path = join(output, "same.yaml");
    expect(await run([join(folder, "a")], { output })).toMatchObject({
      status: 2,
      stderr: `${path} already exists; pass --force to overwrite it\n`,
    });
    expect((await run([join(folder, "a")], { output, force: true })).status).toBe(0);
  });

  it("exits with 2 without a test, or for a file that cannot be read", async () => {
    write({ "other.yaml": box, "bad/chainsaw-test.yaml": "a: [" });
    expect(await run([folder])).toMatchObject({ status: 2, stderr: `${folder}: contains no test of chainsaw or kuttl\n` });
    expect((await run([join(folder, "nowhere")])).status).toBe(2);
    expect((await run([join(folder, "bad/chainsaw-test.yaml")])).status).toBe(2);
  });
});
