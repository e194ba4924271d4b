import { describe, expect, it } from "vitest";
import type { TestStep } from "../api/integration-test.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import { faultsOfIntegrationTest, faultsOfLoadTest } from "./validate-spec.ts";

const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };
const exists = { allOf: [{ function: "ResourceExists" }] };
const selector = { apiVersion: "v1", kind: "Pod" };

describe("an IntegrationTest", () => {
  const faultsOf = (...steps: Partial<TestStep>[]) =>
    faultsOfIntegrationTest({ steps: steps.map((step, index) => ({ name: `s${index}`, ...step })) }, "default");

  it("is without fault when it is", () => {
    expect(faultsOf({ resource: { manifest: configMap }, expectations: exists })).toEqual([]);
  });

  it.each<[string, Partial<TestStep>, string]>([
    [
      "both manifest and selector (regression 12)",
      { resource: { manifest: configMap, selector: { ...selector, name: "x" } } },
      "spec.steps[0].resource: has both",
    ],
    ["neither", { resource: {} }, "spec.steps[0].resource: has neither"],
    ["a list", { resource: { manifest: { ...configMap, items: [] } } }, "spec.steps[0].resource.manifest: is a list"],
    [
      "no apiVersion",
      { resource: { manifest: { kind: "Pod", metadata: { name: "x" } } } },
      "spec.steps[0].resource.manifest.apiVersion: is missing",
    ],
    [
      "no metadata",
      { resource: { manifest: { apiVersion: "v1", kind: "Pod" } } },
      "spec.steps[0].resource.manifest.metadata: is missing",
    ],
    [
      "no name",
      { resource: { manifest: { ...configMap, metadata: { generateName: "x" } } } },
      "spec.steps[0].resource.manifest.metadata.name: is missing",
    ],
    [
      "another namespace",
      { resource: { manifest: { ...configMap, metadata: { name: "x", namespace: "y" } } } },
      "spec.steps[0].resource.manifest.metadata.namespace:",
    ],
    [
      "a label that is no string",
      { resource: { manifest: { ...configMap, metadata: { name: "x", labels: { a: 1 } } } } },
      "spec.steps[0].resource.manifest.metadata.labels:",
    ],
    ["a selector of nothing", { resource: { selector } }, "spec.steps[0].resource.selector: wants exactly one"],
    [
      "a selector of two kinds",
      { resource: { selector: { ...selector, name: "x", labelSelector: {} } } },
      "spec.steps[0].resource.selector: wants exactly one",
    ],
    [
      "a selection to delete",
      { resource: { selector: { ...selector, name: "x" }, action: "Delete" } },
      "spec.steps[0].resource.action:",
    ],
    ["nothing to do (regression 7)", {}, "spec.steps[0]: has neither a resource nor anything to check"],
    [
      "a check without an object",
      { expectations: exists },
      "spec.steps[0].expectations.allOf[0].function: ResourceExists needs a resource",
    ],
    [
      "an unknown function",
      { resource: { manifest: configMap }, readyCondition: { anyOf: [{ function: "Nope" }] } },
      "spec.steps[0].readyCondition.anyOf[0].function: unknown function",
    ],
    [
      "a webhook that is no URL",
      { expectations: { allOf: [{ function: "F", webhook: "host:1" }] } },
      "spec.steps[0].expectations.allOf[0].webhook:",
    ],
    [
      "a password in a webhook",
      { expectations: { allOf: [{ function: "F", webhook: "http://a:b@c" }] } },
      "spec.steps[0].expectations.allOf[0].webhook:",
    ],
  ])("with %s names the field", (_, step, fault) => {
    const faults = faultsOf(step);
    expect(
      faults.find((each) => each.startsWith(fault)),
      faults.join("\n"),
    ).toBeDefined();
  });

  it("names every fault at once", () => {
    expect(faultsOf({ resource: {} }, { name: "s0", resource: {} })).toHaveLength(3);
  });

  it("without steps has nothing to test (regression 9)", () => {
    expect(faultsOf()).toEqual(["spec.steps: a test needs at least one step"]);
  });
});

describe("a LoadTest", () => {
  const faultsOf = (more: Partial<LoadTestSpec>) =>
    faultsOfLoadTest(
      { target: { resource: { manifest: configMap } }, workload: { resources: [{ manifest: configMap }] }, ...more },
      "default",
    );
  const inject = (name: string, extract: { function: string; params?: Record<string, unknown> }) => ({ name, extract });
  const path = { function: "FieldPath", params: { path: "a" } };

  it("is without fault when it is", () => {
    expect(faultsOf({})).toEqual([]);
  });

  it.each<[string, Partial<LoadTestSpec>, string]>([
    ["a target to delete", { target: { resource: { manifest: configMap, action: "Delete" } } }, "spec.target.resource.action:"],
    [
      "an unknown extractor",
      { workload: { resources: [], envInjection: [inject("A", { function: "Nope" })] } },
      "spec.workload.envInjection[0].extract.function: unknown function",
    ],
    [
      "two names that become one",
      { workload: { resources: [], envInjection: [inject("TARGET_URL", path), inject("targetUrl", path)] } },
      "spec.workload.envInjection[1].name:",
    ],
    [
      "a workload without a name",
      { workload: { resources: [{ manifest: { ...configMap, metadata: {} } }] } },
      "spec.workload.resources[0].manifest.metadata.name: is missing",
    ],
    [
      "both names of its check",
      { healthCheck: exists, expectations: exists },
      "spec.expectations: is another name of healthCheck",
    ],
    [
      "an unknown check",
      { healthCheck: { allOf: [{ function: "Nope" }] } },
      "spec.healthCheck.allOf[0].function: unknown function",
    ],
  ])("with %s names the field", (_, more, fault) => {
    const faults = faultsOf(more);
    expect(
      faults.find((each) => each.startsWith(fault)),
      faults.join("\n"),
    ).toBeDefined();
  });
});
