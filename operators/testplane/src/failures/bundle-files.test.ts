import { expect, test } from "vitest";
import { bundleFiles, type FailureEvidence } from "./bundle-files.ts";

const evidence: FailureEvidence = { summary: ["round 1", "step a: Timeout: late"], objects: [], events: [], logs: [] };
const numbered = (count: number, text: string): string =>
  Array.from({ length: count }, (_, index) => `${text} ${index}\n`).join("");

test("has one file per kind of evidence, and none for what is missing", () => {
  expect(bundleFiles(evidence)).toEqual({ "summary.txt": "round 1\nstep a: Timeout: late\n" });
  const files = bundleFiles({
    ...evidence,
    objects: [
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "b" } },
    ],
    logs: [{ pod: "web-1", container: "main", text: "ready\n" }],
  });
  expect(Object.keys(files)).toEqual(["summary.txt", "objects.yaml", "web-1.main.log"]);
  expect(files["objects.yaml"]).toBe(
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n",
  );
});

test("removes the values of Secrets, including from annotations", () => {
  const annotations = { "kubectl.kubernetes.io/last-applied-configuration": '{"data":{"key":"aHVzaA=="}}', kept: "yes" };
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s", annotations }, data: { key: "aHVzaA==" } };
  const text = bundleFiles({ ...evidence, objects: [secret] })["objects.yaml"] ?? "";
  expect(text).not.toContain("aHVzaA==");
  expect(text).toContain('key: "[removed]"');
  expect(text).toContain('kept: "yes"'.replaceAll('"', ""));
});

test("stays below its limit, and keeps the start of objects and the end of logs", () => {
  const maxBytes = 4_000;
  const objects = [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { text: numbered(500, "ä") } }];
  const logs = ["p-1", "p-2"].map((pod) => ({ pod, container: "c", text: numbered(1_000, "line") }));
  const files = bundleFiles({ ...evidence, objects, logs }, maxBytes);
  const total = Object.values(files).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  expect(total).toBeLessThanOrEqual(maxBytes);
  expect(files["objects.yaml"]).toMatch(/^apiVersion: v1\n[^]*\[cut\]\n$/);
  expect(files["p-1.c.log"]).toMatch(/^\[cut\]\nline \d+\n[^]*line 999\n$/);
  expect(files["p-2.c.log"]).toMatch(/line 999\n$/);
  expect(JSON.stringify(files)).not.toContain("\ufffd");
});
