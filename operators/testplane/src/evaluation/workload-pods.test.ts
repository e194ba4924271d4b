import { expect, it } from "vitest";
import { maySelect } from "./workload-pods.ts";

const workload = (selector: object) => ({ apiVersion: "apps/v1", kind: "Deployment", spec: { selector } });
const pod = (labels?: Record<string, string>) => ({ metadata: { ...(labels === undefined ? {} : { labels }) } });

it("wakes the test of a workload for the Pods that its selector matches", () => {
  const web = workload({ matchLabels: { app: "web" } });
  expect(maySelect(web, pod({ app: "web", tier: "front" }))).toBe(true);
  expect(maySelect(web, pod({ app: "shop" }))).toBe(false);
  expect(maySelect(web, pod())).toBe(false);
  expect(maySelect({ kind: "Deployment" }, pod({ app: "web" }))).toBe(false);
});

it("wakes it for every Pod if the selector is not valid, which the test reports", () => {
  expect(maySelect(workload({ matchExpressions: [{ key: "app", operator: "Like", values: ["w"] }] }), pod())).toBe(true);
});
