import { describe, expect, it } from "vitest";
import type { IntegrationTestSpec, TestStep } from "../api/integration-test.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import { validateIntegrationTest } from "./validate-integration-test.ts";
import { validateLoadTest } from "./validate-load-test.ts";

const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };
const exists = { allOf: [{ function: "ResourceExists" }] };
const selector = { apiVersion: "v1", kind: "Pod" };

describe("an IntegrationTest", () => {
  const validate = (...steps: Partial<TestStep>[]) =>
    validateIntegrationTest({ steps: steps.map((step, index) => ({ name: `s${index}`, ...step })) }, "default");

  it("is valid", () => {
    expect(validate({ resource: { manifest: configMap }, expectations: exists })).toEqual([]);
  });

  it("names other clusters that it has, with a ServiceAccount that may read their kubeconfigs", () => {
    const far = { name: "far", kubeconfigSecret: { name: "far" } };
    const other = { ...configMap, metadata: { name: "a", namespace: "other" } };
    const steps = [{ name: "a", cluster: "far", resource: { manifest: other } }];
    expect(validateIntegrationTest({ steps, clusters: [far], serviceAccountName: "tester" }, "default")).toEqual([]);
    expect(validateIntegrationTest({ steps, clusters: [far] }, "default")).toEqual([
      "spec.clusters: requires spec.serviceAccountName, which must be allowed to get the Secrets of the kubeconfigs",
    ]);
    const finalExpectations = [{ name: "b", cluster: "near", resource: { manifest: other }, expectations: exists }];
    const spec = { steps, finalExpectations, clusters: [{ ...far, name: "fat" }], serviceAccountName: "tester" };
    expect(validateIntegrationTest(spec, "default")).toEqual([
      'spec.steps[0].cluster: "far" not found in spec.clusters; did you mean fat?',
      'spec.finalExpectations[0].cluster: "near" not found in spec.clusters',
    ]);
    const run = [{ name: "a", cluster: "far", script: { content: "true" } }];
    expect(validateIntegrationTest({ ...spec, steps: run, finalExpectations: [], clusters: [far] }, "default")).toEqual([
      "spec.steps[0].cluster: must not be set with script, which runs in the cluster of the test",
    ]);
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
      "an expectation that checks nothing",
      { resource: { manifest: configMap }, expectations: { allOf: [{ name: "x" }] } },
      "spec.steps[0].expectations.allOf[0]: must have one of function, matches, cel and jsonPath",
    ],
    [
      "an expectation that checks two things",
      { resource: { manifest: configMap }, expectations: { allOf: [{ function: "ResourceExists", cel: "true" }] } },
      "spec.steps[0].expectations.allOf[0]: must have only one of function and cel",
    ],
    [
      "an expression that does not compile",
      { resource: { manifest: configMap }, expectations: { failWhen: [{ cel: "objekt == 1" }] } },
      "spec.steps[0].expectations.failWhen[0].cel: compilation failed",
    ],
    [
      "an invalid JSONPath",
      { resource: { manifest: configMap }, expectations: { anyOf: [{ jsonPath: { path: ".a[" } }] } },
      "spec.steps[0].expectations.anyOf[0].jsonPath.path: ",
    ],
    [
      "a partial object without a resource",
      { expectations: { allOf: [{ matches: {} }] } },
      "spec.steps[0].expectations.allOf[0].matches: requires a resource",
    ],
    [
      "a duration without a unit",
      { resource: { manifest: configMap }, expectations: { consistently: "30" } },
      "spec.steps[0].expectations.consistently: ",
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

  it.each<[string, Partial<TestStep>, string]>([
    [
      "two actions",
      { sleep: "1s", create: { manifests: [configMap] } },
      "spec.steps[0]: must have only one of create and sleep",
    ],
    [
      "an action and a resource",
      { sleep: "1s", resource: { manifest: configMap } },
      "spec.steps[0]: must have only one of sleep and resource",
    ],
    ["a duration without a unit", { sleep: "5" }, "spec.steps[0].sleep: "],
    [
      "another namespace",
      { apply: { manifests: [{ kind: "List", items: [{ ...configMap, metadata: { name: "x", namespace: "y" } }] }] } },
      "spec.steps[0].apply.manifests[0].metadata.namespace: must be default",
    ],
    [
      "an object in another namespace",
      { scale: { object: { ...selector, name: "x", namespace: "y" }, replicas: 1 } },
      "spec.steps[0].scale.object.namespace: must be default",
    ],
    [
      "a JSON patch that is not a list",
      { patch: { object: { ...selector, name: "x" }, type: "json", body: {} } },
      "spec.steps[0].patch.body: must be a list of operations",
    ],
    ["an expected error without an action", { sleep: "1s", expectError: {} }, "spec.steps[0].expectError: requires an action"],
    [
      "an invalid pattern",
      { create: { manifests: [configMap] }, expectError: { message: "(" } },
      "spec.steps[0].expectError.message: ",
    ],
    ["an unknown step in needs", { sleep: "1s", needs: ["x"] }, 'spec.steps[0].needs[0]: step "x" not found'],
    ["a step that needs itself", { sleep: "1s", needs: ["s0"] }, "spec.steps[0].needs: must not lead back"],
    [
      "an output that does not compile",
      { sleep: "1s", outputs: [{ name: "a", cel: "nope" }] },
      "spec.steps[0].outputs[0].cel: ",
    ],
    [
      "an expression that does not compile",
      { patch: { object: { ...selector, name: "${{ parms.x }}" }, body: {} } },
      "spec.steps[0].patch.object.name: ${{ parms.x }}: compilation failed",
    ],
    [
      "a cleanup step with a mistake",
      { sleep: "1s", cleanup: [{ name: "c", sleep: "1" }] },
      "spec.steps[0].cleanup[0].sleep: ",
    ],
    ["a catch step with a mistake", { sleep: "1s", catch: [{ name: "c", sleep: "1" }] }, "spec.steps[0].catch[0].sleep: "],
    ["a finally step with a mistake", { sleep: "1s", finally: [{ name: "c" }] }, "spec.steps[0].finally[0]: must have "],
  ])("with %s is rejected with the field of the step", (_, step, error) => {
    const errors = validate(step);
    expect(
      errors.find((each) => each.startsWith(error)),
      errors.join("\n"),
    ).toBeDefined();
  });

  it.each<[string, Partial<IntegrationTestSpec>, string]>([
    [
      "a circle of needs",
      {
        steps: [
          { name: "a", sleep: "1s", needs: ["b"] },
          { name: "b", sleep: "1s", needs: ["a"] },
        ],
      },
      "spec.steps[0].needs:",
    ],
    ["an isolated namespace without a ServiceAccount", { isolatedNamespace: true }, "spec.isolatedNamespace: requires"],
    ["a binding that does not compile", { bindings: [{ name: "b", cel: "(" }] }, "spec.bindings[0].cel: "],
    [
      "a value of another type",
      { parameters: [{ name: "n", type: "integer", default: "x" }] },
      "spec.parameterValues.n: must be of type integer",
    ],
    ["a parameter without a value", { parameters: [{ name: "n" }] }, "spec.parameterValues.n: required"],
    ["an unknown parameter", { scenarios: [{ name: "s", values: { n: 1 } }] }, "spec.scenarios[0].values.n: unknown parameter"],
  ])("with %s is rejected with the field of the spec", (_, spec, error) => {
    const errors = validateIntegrationTest({ steps: [{ name: "s", sleep: "1s" }], ...spec }, "default");
    expect(
      errors.find((each) => each.startsWith(error)),
      errors.join("\n"),
    ).toBeDefined();
  });

  it.each<[string, Partial<TestStep>, string]>([
    [
      "a URL of another scheme",
      { http: { url: "ftp://web/" } },
      'spec.steps[0].http.url: "ftp://web/" is not an http or https URL',
    ],
    [
      "credentials in a URL",
      { http: { url: "http://a:b@web/" } },
      "spec.steps[0].http.url: must not contain credentials; use a header",
    ],
    ["a body of a GET", { http: { url: "http://web/", body: "x" } }, "spec.steps[0].http.body: not allowed with GET"],
    [
      "a timeout that is not a duration",
      { http: { url: "http://web/", requestTimeout: "soon" } },
      'spec.steps[0].http.requestTimeout: "soon" is not a duration such as 5s',
    ],
    [
      "an action that needs permissions without a ServiceAccount",
      { exec: { pod: "web", command: ["ls"] } },
      "spec.steps[0].exec: requires spec.serviceAccountName, with the permissions to get, list and watch pods, and get and create pods/exec",
    ],
    ["no Pod", { exec: { command: ["ls"] } }, "spec.steps[0].exec: must have exactly one of pod and labelSelector"],
    [
      "a Pod and labels",
      { logs: { pod: "web", labelSelector: { app: "web" } } },
      "spec.steps[0].logs: must have exactly one of pod and labelSelector",
    ],
    ["an empty selector", { logs: { labelSelector: {} } }, "spec.steps[0].logs.labelSelector: must have at least one label"],
    ["an invalid pattern", { logs: { pod: "web", contains: "(" } }, "spec.steps[0].logs.contains: error parsing regexp"],
    [
      "a pattern for a log that has ended",
      { logs: { pod: "web", contains: "x", previous: true } },
      "spec.steps[0].logs.contains: not allowed with previous; use a check of result.stdout",
    ],
    [
      "neither a request nor a text",
      { portForward: { pod: "web", port: 80 } },
      "spec.steps[0].portForward: must have exactly one of http and send",
    ],
    [
      "an end of a response that is not requested",
      { portForward: { pod: "web", port: 80, http: {}, until: "x" } },
      "spec.steps[0].portForward.until: requires send",
    ],
    [
      "a check of an object that does not exist",
      { http: { url: "http://web/" }, expectations: exists },
      "spec.steps[0].expectations.allOf[0].function: ResourceExists requires a resource",
    ],
    [
      "an error of the API server, which does not see the request",
      { http: { url: "http://web/" }, expectError: { code: 404 } },
      "spec.steps[0].expectError: requires an action that the API server can reject",
    ],
  ])("is rejected with a tool that has %s", (_, step, message) => {
    expect(validate(step).join("\n")).toContain(message);
  });

  it("may use the tools with a ServiceAccount", () => {
    const steps: Partial<TestStep>[] = [
      { http: { url: "${{ 'http://web/' + params.path }}", method: "POST", body: "x", expectedStatusCodes: [201] } },
      { logs: { labelSelector: { app: "web" }, contains: "ready in [0-9]+ ms" } },
      { exec: { pod: "web", command: ["cat"], stdin: "x" }, expectations: { allOf: [{ cel: "result.stdout == 'x'" }] } },
      { portForward: { pod: "web", port: 6379, send: "PING\r\n", until: "PONG" } },
      { portForward: { pod: "web", port: 80, http: { path: "/" } }, outputs: [{ name: "id", cel: "result.json.id" }] },
    ];
    const named = steps.map((step, index) => ({ name: `s${index}`, ...step }));
    expect(validateIntegrationTest({ serviceAccountName: "tester", steps: named }, "default")).toEqual([]);
  });

  it("may name other namespaces with a ServiceAccount, whose permissions are checked when it runs", () => {
    const apply = { manifests: [{ ...configMap, metadata: { name: "x", namespace: "y" } }] };
    expect(validateIntegrationTest({ serviceAccountName: "tester", steps: [{ name: "a", apply }] }, "default")).toEqual([]);
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
