import { describe, expect, it } from "vitest";
import type { TestStep } from "../api/integration-test.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import { validateIntegrationTest, validateLoadTest } from "./validate-spec.ts";

const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };
const exists = { allOf: [{ function: "ResourceExists" }] };
const selector = { apiVersion: "v1", kind: "Pod" };

describe("an IntegrationTest", () => {
  const validate = (...steps: Partial<TestStep>[]) =>
    validateIntegrationTest({ steps: steps.map((step, index) => ({ name: `s${index}`, ...step })) }, "default");

  it("is valid", () => {
    expect(validate({ resource: { manifest: configMap }, expectations: exists })).toEqual([]);
  });

  it.each<[string, Partial<TestStep>, string]>([
    [
      "both manifest and selector (regression 12)",
      { resource: { manifest: configMap, selector: { ...selector, name: "x" } } },
      "spec.steps[0].resource: must have either manifest or selector",
    ],
    ["neither", { resource: {} }, "spec.steps[0].resource: must have a manifest or a selector"],
    [
      "a list",
      { resource: { manifest: { ...configMap, items: [] } } },
      "spec.steps[0].resource.manifest: must be a single object",
    ],
    [
      "no apiVersion",
      { resource: { manifest: { kind: "Pod", metadata: { name: "x" } } } },
      "spec.steps[0].resource.manifest.apiVersion: required",
    ],
    [
      "no metadata",
      { resource: { manifest: { apiVersion: "v1", kind: "Pod" } } },
      "spec.steps[0].resource.manifest.metadata: required",
    ],
    [
      "no name",
      { resource: { manifest: { ...configMap, metadata: { generateName: "x" } } } },
      "spec.steps[0].resource.manifest.metadata.name: required",
    ],
    [
      "another namespace",
      { resource: { manifest: { ...configMap, metadata: { name: "x", namespace: "y" } } } },
      "spec.steps[0].resource.manifest.metadata.namespace:",
    ],
    [
      "a label that is not a string",
      { resource: { manifest: { ...configMap, metadata: { name: "x", labels: { a: 1 } } } } },
      "spec.steps[0].resource.manifest.metadata.labels:",
    ],
    ["a selector without criteria", { resource: { selector } }, "spec.steps[0].resource.selector: must have exactly one"],
    [
      "a selector with two criteria",
      { resource: { selector: { ...selector, name: "x", labelSelector: {} } } },
      "spec.steps[0].resource.selector: must have exactly one",
    ],
    [
      "a selector to delete",
      { resource: { selector: { ...selector, name: "x" }, action: "Delete" } },
      "spec.steps[0].resource.action:",
    ],
    ["nothing to do (regression 7)", {}, "spec.steps[0]: must have a resource, readyCondition or expectations"],
    [
      "a check without an object",
      { expectations: exists },
      "spec.steps[0].expectations.allOf[0].function: ResourceExists requires a resource",
    ],
    [
      "an unknown function",
      { resource: { manifest: configMap }, readyCondition: { anyOf: [{ function: "Nope" }] } },
      "spec.steps[0].readyCondition.anyOf[0].function: unknown function",
    ],
    [
      "a webhook that is not a URL",
      { expectations: { allOf: [{ function: "F", webhook: "host:1" }] } },
      "spec.steps[0].expectations.allOf[0].webhook:",
    ],
    [
      "a password in a webhook",
      { expectations: { allOf: [{ function: "F", webhook: "http://a:b@c" }] } },
      "spec.steps[0].expectations.allOf[0].webhook:",
    ],
  ])("with %s is rejected with the field", (_, step, error) => {
    const errors = validate(step);
    expect(
      errors.find((each) => each.startsWith(error)),
      errors.join("\n"),
    ).toBeDefined();
  });

  it("reports all errors", () => {
    expect(validate({ resource: {} }, { name: "s0", resource: {} })).toHaveLength(3);
  });

  it("without steps is rejected (regression 9)", () => {
    expect(validate()).toEqual(["spec.steps: must have at least one step"]);
  });
});

describe("a LoadTest", () => {
  const validate = (more: Partial<LoadTestSpec>) =>
    validateLoadTest(
      { target: { resource: { manifest: configMap } }, workload: { resources: [{ manifest: configMap }] }, ...more },
      "default",
    );
  const inject = (name: string, extract: { function: string; params?: Record<string, unknown> }) => ({ name, extract });
  const path = { function: "FieldPath", params: { path: "a" } };

  it("is valid", () => {
    expect(validate({})).toEqual([]);
  });

  it.each<[string, Partial<LoadTestSpec>, string]>([
    ["a target to delete", { target: { resource: { manifest: configMap, action: "Delete" } } }, "spec.target.resource.action:"],
    [
      "an unknown extractor",
      { workload: { resources: [], envInjection: [inject("A", { function: "Nope" })] } },
      "spec.workload.envInjection[0].extract.function: unknown function",
    ],
    [
      "two names that map to the same annotation",
      { workload: { resources: [], envInjection: [inject("TARGET_URL", path), inject("targetUrl", path)] } },
      "spec.workload.envInjection[1].name:",
    ],
    [
      "a workload without a name",
      { workload: { resources: [{ manifest: { ...configMap, metadata: {} } }] } },
      "spec.workload.resources[0].manifest.metadata.name: required",
    ],
    ["healthCheck and its alias", { healthCheck: exists, expectations: exists }, "spec.expectations: alias of healthCheck"],
    [
      "an unknown check",
      { healthCheck: { allOf: [{ function: "Nope" }] } },
      "spec.healthCheck.allOf[0].function: unknown function",
    ],
  ])("with %s is rejected with the field", (_, more, error) => {
    const errors = validate(more);
    expect(
      errors.find((each) => each.startsWith(error)),
      errors.join("\n"),
    ).toBeDefined();
  });
});
