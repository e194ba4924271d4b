import { readFileSync } from "node:fs";
import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import { crdKinds } from "../kinds/extension/custom-resource-definitions.ts";
import { listAt, setField, valueAt } from "../object-fields.ts";
import { widgetCrd } from "../testing/crd-samples.ts";
import { collectCauses } from "../causes.ts";

interface Recorded {
  readonly name: string;
  readonly body: KubernetesObject;
  readonly causes: readonly { readonly reason: string; readonly field: string }[];
}

/** Refusals of a kube-apiserver, from the conformance scenario `invalid-crds`. */
const recorded = JSON.parse(
  readFileSync(new URL("../../../testdata/invalid-crds.json", import.meta.url), "utf8"),
) as readonly Recorded[];

const [crds] = crdKinds(() => 0);
if (crds === undefined) throw new Error("CRDs are not served");
const { strategy } = crds;

function causesOf(sent: KubernetesObject): { reason: string; field: string }[] {
  const crd = draft(sent);
  strategy.default?.(crd);
  strategy.prepareForCreate?.(crd);
  return collectCauses(strategy.validate?.(crd) ?? []).map(({ reason = "", field = "" }) => ({ reason, field }));
}

/** Reasons and paths differ between versions of Kubernetes: the recorded ones are older. */
function normalised(causes: readonly { readonly reason: string; readonly field: string }[]): string[] {
  const lines = causes.map(({ reason, field }) => {
    const path = field
      .replace(/^spec\.versions\[0\]\.schema/, "spec.validation")
      .replace(/^spec\.versions\[0\]\.(subresources|additionalPrinterColumns)/, "spec.$1")
      .replace(/\.JSONPath$/, ".jsonPath");
    return `${/TypeInvalid|TooLong|TooMany/.test(reason) ? "FieldValueInvalid" : reason} ${path}`;
  });
  return [...new Set(lines)].sort();
}

describe("the validation of CustomResourceDefinitions", () => {
  it("accepts a valid CRD", () => {
    expect(causesOf(widgetCrd())).toEqual([]);
  });

  it.each(recorded.map((step) => [step.name, step] as const))("rejects as kube-apiserver does: %s", (_, { body, causes }) => {
    const found = normalised(causesOf(body));
    if (causes.length === 0) expect(found).not.toEqual([]);
    else expect(found).toEqual(normalised(causes));
  });

  it("rejects keywords that are not allowed at the root of a schema", () => {
    const at = "spec.validation.openAPIV3Schema";
    const withWord = (word: object): KubernetesObject => {
      const crd = widgetCrd();
      Object.assign(valueAt(crd, "spec", "versions", 0, "schema", "openAPIV3Schema") as object, word);
      return crd;
    };
    expect(causesOf(withWord({ nullable: true }))).toContainEqual({
      reason: "FieldValueForbidden",
      field: `${at}.nullable`,
    });
    // A value of the whole object would take the status in.
    expect(causesOf(withWord({ anyOf: [{ required: ["spec"] }] }))).toEqual([{ reason: "FieldValueInvalid", field: at }]);
  });

  it("protects community-owned groups", () => {
    const crd = JSON.parse(JSON.stringify(widgetCrd()).replaceAll("example.com", "robots.k8s.io")) as KubernetesObject;
    expect(causesOf(crd)).toEqual([
      { reason: "FieldValueRequired", field: "metadata.annotations[api-approved.kubernetes.io]" },
    ]);
    crd.metadata.annotations = { "api-approved.kubernetes.io": "unapproved, for a test" };
    expect(causesOf(crd)).toEqual([]);
  });

  it("validates selectable fields against the schema", () => {
    const crd = widgetCrd();
    setField(valueAt(crd, "spec", "versions", 0) as object, "selectableFields", [
      { jsonPath: ".spec.n" },
      { jsonPath: ".spec" },
      { jsonPath: ".spec.none" },
      { jsonPath: "spec.n" },
    ]);
    expect(causesOf(crd).map(({ field }) => field)).toEqual(
      [1, 2, 3].map((index) => `spec.selectableFields[${index}].jsonPath`),
    );
  });

  it("names what all versions share as a part of the CRD", () => {
    const crd = widgetCrd();
    const [first] = listAt(crd, "spec", "versions");
    const columns = [{ name: "A", type: "string", jsonPath: "" }];
    const version = (name: string, storage: boolean, additionalPrinterColumns: object[]): object => ({
      ...(first as object),
      name,
      storage,
      additionalPrinterColumns,
    });
    const fieldsOf = (...versions: object[]): string[] => {
      setField(valueAt(crd, "spec") as object, "versions", versions);
      return causesOf(crd).map(({ field }) => field);
    };
    expect(fieldsOf(version("v1", true, columns), version("v2", false, columns))).toEqual([
      "spec.additionalPrinterColumns[0].JSONPath",
    ]);
    expect(fieldsOf(version("v1", true, columns), version("v2", false, []))).toEqual([
      "spec.versions[0].additionalPrinterColumns[0].jsonPath",
    ]);
    expect(fieldsOf(version("V1", true, []))).toEqual(["spec.versions[0].name", "spec.version"]);
  });

  it("reports empty short names and categories, and accepts an empty webhook without conversion", () => {
    const crd = widgetCrd();
    setField(valueAt(crd, "spec", "names") as object, "shortNames", [""]);
    setField(valueAt(crd, "spec", "names") as object, "categories", [""]);
    setField(valueAt(crd, "spec") as object, "conversion", { strategy: "None", webhook: {} });
    expect(causesOf(crd).map(({ field }) => field)).toEqual(["spec.names.shortNames[0]", "spec.names.categories[0]"]);
  });

  it("reports only that group and plural are immutable if an update changes them", () => {
    const crd = draft(widgetCrd());
    strategy.default?.(crd);
    strategy.prepareForCreate?.(crd);
    const changed = draft(crd);
    setField(valueAt(changed, "spec") as object, "group", "other.example.com");
    expect(collectCauses(strategy.validate?.(changed, crd) ?? [])).toEqual([]);
    expect(collectCauses(strategy.validateUpdate?.(changed, crd) ?? []).map(({ field }) => field)).toEqual(["spec.group"]);
  });

  it("accepts conversion by webhook", () => {
    const crd = widgetCrd();
    setField(valueAt(crd, "spec") as object, "conversion", {
      strategy: "Webhook",
      webhook: { clientConfig: { url: "https://x" }, conversionReviewVersions: ["v1"] },
    });
    expect(causesOf(crd)).toEqual([]);
  });

  it("defaults names, conversion and status at create", () => {
    const crd = widgetCrd();
    setField(crd, "status", { storedVersions: ["v9"] });
    strategy.default?.(crd);
    strategy.prepareForCreate?.(crd);
    expect(valueAt(crd, "spec", "names")).toEqual({
      plural: "widgets",
      kind: "Widget",
      singular: "widget",
      listKind: "WidgetList",
    });
    expect(valueAt(crd, "spec", "conversion")).toEqual({ strategy: "None" });
    expect(valueAt(crd, "status")).toEqual({
      conditions: null,
      acceptedNames: { plural: "", kind: "" },
      storedVersions: ["v1"],
    });
  });

  it("drops a default of null", () => {
    const crd = widgetCrd();
    const spec = ["spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties", "n"] as const;
    setField(valueAt(crd, ...spec) as object, "default", null);
    expect(causesOf(crd)).toEqual([]);
    strategy.default?.(crd);
    strategy.prepareForCreate?.(crd);
    expect(valueAt(crd, ...spec)).toEqual({ type: "integer", minimum: 1 });
  });

  it.each(["x".repeat(257), "a\nb", ""])("rejects a deprecation warning that is not one short line: %j", (warning) => {
    const crd = widgetCrd();
    const version = valueAt(crd, "spec", "versions", 0) as object;
    setField(version, "deprecated", true);
    setField(version, "deprecationWarning", warning);
    expect(causesOf(crd)).toEqual([{ reason: "FieldValueInvalid", field: "spec.versions[0].deprecationWarning" }]);
  });

  it("rejects changes of the group, of scope and kind once established, and removal of stored versions", () => {
    const old = widgetCrd();
    strategy.default?.(old);
    strategy.prepareForCreate?.(old);
    const changed = (edit: (crd: KubernetesObject) => void): string[] => {
      const crd = draft(old) as KubernetesObject;
      edit(crd);
      strategy.default?.(crd);
      strategy.prepareForUpdate?.(crd, old);
      return collectCauses(strategy.validateUpdate?.(crd, old) ?? []).map(({ field = "" }) => field);
    };
    const setScope = (crd: KubernetesObject): void => setField(valueAt(crd, "spec") as object, "scope", "Cluster");
    expect(changed(setScope)).toEqual([]);
    expect(changed((crd) => setField(valueAt(crd, "spec") as object, "group", "other.com"))).toEqual(["spec.group"]);
    expect(changed((crd) => setField(valueAt(crd, "spec", "versions", 0) as object, "name", "v2"))).toEqual([
      "status.storedVersions[0]",
    ]);
    setField(valueAt(old, "status") as object, "conditions", [{ type: "Established", status: "True" }]);
    expect(changed(setScope)).toEqual(["spec.scope"]);
  });
});
