import { ConfigMap, Deployment, Pod } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { defineController, metadataOf, readOf, watchOf } from "@keelson/controller";
import { rulesOf } from "./rules-of.ts";

const none = async (): Promise<void> => {};
const events = { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] };
const reading = ["get", "list", "watch"];

test("grants reads of declared kinds and the requested writes, independent of the order of declarations", () => {
  const first = defineController({
    name: "first",
    for: Deployment,
    owns: [Pod],
    watches: [watchOf(metadataOf(ConfigMap), () => [])],
    reconcile: none,
  });
  const second = defineController({ name: "second", for: ConfigMap, reads: [readOf(Pod)], reconcile: none });
  const status = { type: Deployment, verbs: ["patch"], subresource: "status" } as const;
  const pods = { type: Pod, verbs: ["delete", "create"] } as const;
  const rules = rulesOf([first, second], [status, pods]);
  expect(rules).toEqual([
    { apiGroups: [""], resources: ["configmaps"], verbs: reading },
    { apiGroups: [""], resources: ["pods"], verbs: [...reading, "create", "delete"] },
    { apiGroups: ["apps"], resources: ["deployments"], verbs: reading },
    { apiGroups: ["apps"], resources: ["deployments/finalizers"], verbs: ["update"] },
    { apiGroups: ["apps"], resources: ["deployments/status"], verbs: ["patch"] },
    events,
  ]);
  expect(rulesOf([second, first], [pods, status])).toEqual(rules);
});

test("a controller without owned kinds gets no finalizer permissions", () => {
  expect(rulesOf([defineController({ name: "a", for: ConfigMap, reconcile: none })])).toEqual([
    { apiGroups: [""], resources: ["configmaps"], verbs: reading },
    events,
  ]);
});
