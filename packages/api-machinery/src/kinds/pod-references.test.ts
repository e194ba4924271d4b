import { expect, test } from "vitest";
import { podReferences } from "./pod-references.ts";

test("collects references from volumes, variables, pull secrets and the service account", () => {
  const spec = {
    serviceAccountName: "robot",
    imagePullSecrets: [{ name: "registry" }],
    volumes: [
      { name: "a", configMap: { name: "files" } },
      { name: "b", secret: { secretName: "key" } },
      { name: "c", persistentVolumeClaim: { claimName: "data" } },
      { name: "d", projected: { sources: [{ configMap: { name: "part" } }, { secret: { name: "piece" } }, {}] } },
      { name: "e", ephemeral: { volumeClaimTemplate: {} } },
      { name: "f", emptyDir: {} },
    ],
    containers: [
      { name: "main", envFrom: [{ configMapRef: { name: "all" } }, { secretRef: { name: "hidden" } }] },
      {
        name: "other",
        env: [
          { name: "A", value: "1" },
          { name: "B", valueFrom: { configMapKeyRef: { name: "one", key: "k" } } },
        ],
      },
    ],
    initContainers: [{ name: "first", env: [{ name: "C", valueFrom: { secretKeyRef: { name: "word", key: "k" } } }] }],
  };
  const found = podReferences({ metadata: { name: "p" }, spec });
  expect([...found.configMaps].sort()).toEqual(["all", "files", "one", "part"]);
  expect([...found.secrets].sort()).toEqual(["hidden", "key", "piece", "registry", "word"]);
  expect([...found.claims].sort()).toEqual(["data", "p-e"]);
  expect(found.serviceAccount).toBe("robot");
});

test("returns only the default service account for a Pod without references and for other objects", () => {
  for (const spec of [undefined, {}, { containers: "x", volumes: [null, 1, []] }]) {
    const found = podReferences({ spec });
    expect([found.configMaps.size, found.secrets.size, found.claims.size, found.serviceAccount]).toEqual([0, 0, 0, "default"]);
  }
});
