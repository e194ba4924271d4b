import { expect, test } from "vitest";
import { ignoredFields } from "./ignored-fields.ts";
import type { PodView } from "../pod-view.ts";

const pod = (securityContext: object, more: object = {}): PodView =>
  ({ metadata: { name: "p" }, spec: { containers: [{ name: "main", securityContext }], ...more } }) as unknown as PodView;

test.each([
  ["process", { readOnlyRootFilesystem: true }, ["securityContext.readOnlyRootFilesystem of container main"]],
  ["process", { capabilities: { drop: ["ALL"] } }, ["securityContext.capabilities.drop of container main"]],
  ["process", { privileged: true, capabilities: { add: ["NET_ADMIN"] } }, []],
  ["containerd", { readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } }, []],
  ["containerd", { privileged: true }, ["securityContext.privileged of container main"]],
  ["bubblewrap", { capabilities: { add: ["NET_ADMIN"] } }, ["securityContext.capabilities.add of container main"]],
] as const)("runtime %s with %j ignores %j", (runtime, securityContext, fields) => {
  expect(ignoredFields(pod(securityContext), runtime)).toEqual(fields);
});

test("isolated programs ignore shareProcessNamespace; plain processes always share", () => {
  const sharing = pod({}, { shareProcessNamespace: true });
  expect(ignoredFields(sharing, "bubblewrap")).toEqual(["spec.shareProcessNamespace"]);
  expect(ignoredFields(sharing, "process")).toEqual([]);
});
