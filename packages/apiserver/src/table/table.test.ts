import type { KubernetesObject } from "@keelson/api-machinery";
import type { PrinterColumn } from "@keelson/api-machinery/schema";
import { describe, expect, it } from "vitest";
import { builtinKinds } from "../registry/builtin-kinds.ts";
import { crdResources } from "../registry/crd/crd-resources.ts";
import { asCrd } from "../registry/crd/crd-spec.ts";
import { setField, valueAt } from "../registry/object-fields.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { noReviews, widgetCrd } from "../registry/testing/crd-samples.ts";
import { toTable } from "./table.ts";

const now = Date.parse("2026-01-01T00:01:00Z");
const kinds = builtinKinds({ clock: { now: () => now }, reviews: noReviews });

function builtin(plural: string, group = ""): ServedResource {
  const found = kinds.find((kind) => kind.plural === plural && kind.group === group);
  if (found === undefined) throw new Error(`${plural} are not served`);
  return found;
}

function widgets(columns?: readonly PrinterColumn[]): ServedResource {
  const crd = widgetCrd();
  setField(valueAt(crd, "spec", "versions", 0) as object, "additionalPrinterColumns", columns);
  setField(valueAt(crd, "spec", "names") as object, "listKind", "WidgetList");
  setField(crd, "status", { conditions: [{ type: "Established", status: "True" }] });
  const [resource] = crdResources(asCrd(crd));
  if (resource === undefined) throw new Error("Widgets are not served");
  return resource;
}

const metadata = { name: "a", namespace: "default", creationTimestamp: "2026-01-01T00:00:00Z" };
const shown = { includeObject: "None", now } as const;

describe("toTable", () => {
  it("shows a built-in kind by its own cells, the name first", () => {
    const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { x: "1" }, binaryData: { y: "MQ==" } };
    const { columnDefinitions, rows } = toTable(builtin("configmaps"), [configMap], shown);
    expect(columnDefinitions.map(({ name, type, format, priority }) => [name, type, format, priority])).toEqual([
      ["Name", "string", "name", 0],
      ["Data", "string", "", 0],
      ["Age", "string", "", 0],
    ]);
    expect(rows).toEqual([{ cells: ["a", 2, "60s"], object: null }]);
  });

  it("shows when an object of a kind without columns was created", () => {
    const { columnDefinitions, rows } = toTable(
      builtin("roles", "rbac.authorization.k8s.io"),
      [{ apiVersion: "", kind: "", metadata }],
      shown,
    );
    expect(columnDefinitions.map(({ name, type }) => [name, type])).toEqual([
      ["Name", "string"],
      ["Created At", "date"],
    ]);
    expect(rows[0]?.cells).toEqual(["a", "2026-01-01T00:00:00Z"]);
  });

  it("omits the name column of Events", () => {
    const { columnDefinitions, rows } = toTable(builtin("events"), [{ apiVersion: "", kind: "", metadata }], shown);
    expect(columnDefinitions.map(({ name }) => name)).toEqual([
      "Last Seen",
      "Type",
      "Reason",
      "Object",
      "Subobject",
      "Source",
      "Message",
      "First Seen",
      "Count",
      "Name",
    ]);
    expect(columnDefinitions.at(-1)).toMatchObject({ format: "name", priority: 1 });
    expect(rows[0]?.cells).toHaveLength(10);
  });

  it("shows Name and Age of a custom kind without columns", () => {
    const { columnDefinitions, rows } = toTable(widgets(), [{ apiVersion: "", kind: "", metadata }], shown);
    expect(columnDefinitions.map(({ name, type }) => [name, type])).toEqual([
      ["Name", "string"],
      ["Age", "date"],
    ]);
    expect(rows[0]?.cells).toEqual(["a", "60s"]);
  });

  it("reads a custom kind's columns by their paths and types", () => {
    const columns: PrinterColumn[] = [
      { name: "N", type: "integer", jsonPath: ".spec.n" },
      { name: "Text", type: "string", jsonPath: ".spec.s", description: "some text", priority: 1 },
      { name: "Flag", type: "boolean", jsonPath: ".spec.flag" },
      { name: "First", type: "string", jsonPath: ".spec.tags[0]" },
      { name: "Tags", type: "string", jsonPath: ".spec.tags" },
      { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: "When", type: "date", jsonPath: ".status.when" },
      { name: "Wrong", type: "integer", jsonPath: ".spec.s" },
      { name: "Bad", type: "date", jsonPath: ".spec.s" },
      { name: "Broken", type: "string", jsonPath: ".spec[" },
    ];
    const full = {
      apiVersion: "example.com/v1",
      kind: "Widget",
      metadata,
      spec: { n: 1, s: "one", flag: true, tags: ["x", "y"] },
      status: {
        when: "2025-12-31T23:01:00Z",
        conditions: [
          { type: "Other", status: "False" },
          { type: "Ready", status: "True" },
        ],
      },
    };
    const empty = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "b" } };
    const { columnDefinitions, rows } = toTable(widgets(columns), [full, empty], shown);
    expect(columnDefinitions[2]).toEqual({ name: "Text", type: "string", format: "", description: "some text", priority: 1 });
    expect(rows.map(({ cells }) => cells)).toEqual([
      ["a", 1, "one", true, "x", '["x","y"]', "True", "60m", null, "<invalid>", null],
      ["b", ...columns.map(() => null)],
    ]);
  });

  it("includes the requested part of each object", () => {
    const object: KubernetesObject & { data: object } = { apiVersion: "v1", kind: "ConfigMap", metadata, data: {} };
    const included = (includeObject: "None" | "Metadata" | "Object") =>
      toTable(builtin("configmaps"), [object], { includeObject, now }).rows[0]?.object;
    expect(included("None")).toBeNull();
    expect(included("Object")).toBe(object);
    expect(included("Metadata")).toEqual({ kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata });
  });
});
