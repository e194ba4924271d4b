import { describe, expect, it } from "vitest";
import { PodInterest } from "./workload-pods.ts";

const deployment = (selector: object | undefined) => ({
  ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" } },
  spec: selector === undefined ? {} : { selector },
});
const pod = (labels: Record<string, string>) => ({ metadata: { labels } });

describe("the interest of a test in Pods", () => {
  it("parses the selector of a workload once", () => {
    const interest = new PodInterest();
    let reads = 0;
    const selector = {
      get matchLabels() {
        reads += 1;
        return { app: "web" };
      },
    };
    const before = deployment(selector);
    // The next version of the object shares its selector.
    const after = { ...before, status: { readyReplicas: 1 }, spec: { ...before.spec } };
    expect(interest.maySelect(before, pod({ app: "web" }))).toBe(true);
    expect(interest.maySelect(after, pod({ app: "other" }))).toBe(false);
    expect(reads).toBe(1);
  });

  it("follows a changed selector", () => {
    const interest = new PodInterest();
    expect(interest.maySelect(deployment({ matchLabels: { app: "a" } }), pod({ app: "b" }))).toBe(false);
    expect(interest.maySelect(deployment({ matchLabels: { app: "b" } }), pod({ app: "b" }))).toBe(true);
  });

  it("includes all Pods if the selector is not valid, and none without a selector", () => {
    const interest = new PodInterest();
    const invalid = deployment({ matchExpressions: [{ key: "app", operator: "Unknown" }] });
    for (let count = 0; count < 2; count++) expect(interest.maySelect(invalid, pod({}))).toBe(true);
    expect(interest.maySelect(deployment(undefined), pod({ app: "a" }))).toBe(false);
  });
});
