import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { JsonValue } from "@keelson/api-machinery";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { parseAllDocuments, stringify } from "yaml";
import { parseTemplate } from "../../../../../operators/middleware/src/template/parse-template.ts";
import { renderTemplate } from "../../../../../operators/middleware/src/template/render-template.ts";
import { loadOperators } from "../../operators.ts";
import { installParts, renderInstallation } from "../install-parts.ts";
import { readValues } from "../values.ts";
import { chartFiles } from "./chart-files.ts";

const version = "1.2.3";
const namespace = "work";
let operators: Awaited<ReturnType<typeof loadOperators>>;
let files: ReadonlyMap<string, string>;

beforeAll(async () => {
  operators = await loadOperators();
  files = chartFiles(operators, version);
});

const cases: readonly (readonly [string, JsonValue])[] = [
  ["the defaults", {}],
  [
    "everything switched on",
    {
      namespace: { create: true },
      metrics: { serviceMonitor: { enabled: true, labels: { release: "prometheus" } } },
      imagePullSecrets: [{ name: "registry" }],
      nodeSelector: { "kubernetes.io/os": "linux" },
      tolerations: [{ key: "dedicated", operator: "Exists" }],
      affinity: { nodeAffinity: {} },
      priorityClassName: "high",
      runtimeClassName: "gvisor",
      podLabels: { team: "platform" },
      podAnnotations: { "example.org/note": 'quotes " and {{ braces }} and <angles>' },
      robots: {
        extraArgs: ["--log-level=debug"],
        allowV1Agents: true,
        broker: { kind: "mosquitto", credentialsSecret: "mqtt", mosquitto: { passwordSecret: "passwords" } },
      },
      testplane: { extraRules: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["get", "create"] }] },
      sandboxes: {
        persistence: { enabled: true, storageClassName: "fast" },
        tokenSecret: "fastpath",
        toolImage: "example.org/tools:1",
        service: { type: "LoadBalancer", annotations: { a: "b" } },
      },
    },
  ],
  [
    "everything switched off",
    {
      crds: { install: false },
      rbac: { aggregate: false },
      metrics: { enabled: false },
      networkPolicy: { enabled: false },
      podDisruptionBudget: { enabled: false },
      topologySpread: { enabled: false },
      robots: { broker: { kind: "external", url: "mqtts://broker:8883" } },
      mpi: { enabled: false },
      middleware: { replicas: 0 },
    },
  ],
];

const objectsOf = (yaml: string): unknown[] =>
  parseAllDocuments(yaml)
    .map((document) => document.toJS() as unknown)
    .filter((object) => object !== null);

const sorted = (objects: readonly unknown[]): unknown[] =>
  objects
    .map((object) => object as { kind: string; metadata: { name: string } })
    .sort((a, b) => `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`));

const render = (source: JsonValue): { readonly values: JsonValue; readonly objects: unknown[] } => {
  const { values } = readValues({ operators, version, sources: [source] });
  return { values, objects: sorted(renderInstallation(installParts(operators), { values, namespace })) };
};

test.each(cases)("the chart renders the objects of keelson install with %s", (_, source) => {
  const { values, objects } = render(source);
  const rendered = [...files]
    .filter(([path]) => /^templates\/.*\.yaml$/.test(path))
    .flatMap(([path, text]) => {
      const data = { Values: values, Release: { Namespace: namespace }, Chart: { AppVersion: version } };
      return objectsOf(renderTemplate(parseTemplate(path, text), data));
    });
  expect(sorted(rendered)).toEqual(objects);
});

const helm = process.env.HELM ?? "helm";
// A Helm that was built without version information assumes an old cluster.
const kubeVersion = ["--kube-version", "1.35.0"];
const hasHelm = spawnSync(helm, ["version"]).status === 0;

describe.runIf(hasHelm)("with Helm", () => {
  function chartFolder(): string {
    const dir = mkdtempSync(join(tmpdir(), "chart-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    for (const [path, text] of files) {
      mkdirSync(dirname(join(dir, path)), { recursive: true });
      writeFileSync(join(dir, path), text);
    }
    return dir;
  }

  test.each(cases)("helm renders the same objects with %s", (_, source) => {
    const dir = chartFolder();
    const values = join(dir, "chosen.yaml");
    writeFileSync(values, stringify(source));
    const output = execFileSync(
      helm,
      ["template", "keelson", dir, "--namespace", namespace, "--values", values, ...kubeVersion],
      {
        encoding: "utf8",
        maxBuffer: 1 << 26,
      },
    );
    expect(sorted(objectsOf(output))).toEqual(render(source).objects);
  });

  test("helm lint accepts the chart, and the schema rejects unknown values", () => {
    const dir = chartFolder();
    expect(spawnSync(helm, ["lint", "--strict", ...kubeVersion, dir], { encoding: "utf8" })).toMatchObject({ status: 0 });
    const rejected = spawnSync(helm, ["template", dir, ...kubeVersion, "--set", "robots.replica=1"], { encoding: "utf8" });
    expect(rejected.stderr).toMatch(/replica/);
  });
});

test("documents every value, with its default", () => {
  const page = files.get("README.md") ?? "";
  expect(page).toContain("| `robots.replicas` | `1` | 0 or 1: the embedded MQTT broker runs on the leader");
  expect(page).not.toMatch(/\| `[^`]+` \| `[^`]*` \| \|/);
});

test("grants each operator the rules that it declares, and nothing else", () => {
  const { objects } = render({ metrics: { enabled: false } });
  for (const operator of operators) {
    const role = objects.find((object) => {
      const { kind, metadata } = object as { kind: string; metadata: { name: string } };
      return kind === "ClusterRole" && metadata.name === `keelson:${operator.name}`;
    });
    const { rules } = role as { rules: { resources: string[] }[] };
    expect(rules.slice(0, -1)).toEqual(operator.rules);
    expect(rules.at(-1)?.resources).toEqual(["events"]);
  }
});
