import { deepFreeze, type DeepReadonly, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import {
  cacheOf,
  type CacheOptions,
  type CacheSelection,
  type Transform,
  mayBeSelected,
  selectionsOf,
  transformed,
} from "./cache-options.ts";
import { metadataOf } from "./metadata-only.ts";
import { configMapType, robotType } from "../testing/kinds.ts";

const clusterType: ResourceType = { ...robotType, kind: "Cluster", plural: "clusters", scope: "Cluster" };
const selections = (type: ResourceType, options: CacheOptions): Record<string, CacheSelection> =>
  Object.fromEntries(selectionsOf(type, options));

describe("selections", () => {
  test("cover all namespaces by default, and cluster-scoped kinds despite any namespaces", () => {
    expect(selections(robotType, {})).toEqual({ "": {} });
    expect(selections(clusterType, { namespaces: ["a"] })).toEqual({ "": {} });
    expect(selections(robotType, { namespaces: ["a", "b"] })).toEqual({ a: {}, b: {} });
  });

  test("take each field from the kind's namespace, the kind, the namespace, or the default", () => {
    const transform: Transform<KubernetesObject> = (object) => object;
    const options: CacheOptions = {
      namespaces: { a: { labelSelector: "of=namespace", fieldSelector: "metadata.name=namespace" }, b: {} },
      labelSelector: "of=default",
      fieldSelector: "metadata.name=default",
      transform,
      byObject: [
        cacheOf(robotType, { namespaces: { a: { labelSelector: "of=kind-namespace" }, c: {} } }),
        cacheOf(configMapType, { labelSelector: "of=kind" }),
      ],
    };
    const { fieldSelector } = options;
    expect(selections(robotType, options)).toEqual({
      a: { labelSelector: "of=kind-namespace", fieldSelector: "metadata.name=namespace", transform },
      c: { labelSelector: "of=default", fieldSelector, transform },
    });
    expect(selections(configMapType, options)).toEqual({
      a: { labelSelector: "of=kind", fieldSelector: "metadata.name=namespace", transform },
      b: { labelSelector: "of=kind", fieldSelector, transform },
    });
  });

  test("are separate for a kind and its metadata", () => {
    const options = { byObject: [cacheOf(metadataOf(Pod), { labelSelector: "x" })] };
    expect([selections(Pod, options), selections(metadataOf(Pod), options)]).toEqual([
      { "": {} },
      { "": { labelSelector: "x" } },
    ]);
  });
});

test("an object may be selected unless its labels, name or namespace exclude it", () => {
  const object = { apiVersion: "v1", kind: "X", metadata: { namespace: "a", name: "n", labels: { l: "1" } } };
  const may = (selection: CacheSelection): boolean => mayBeSelected(selection, object);
  expect([may({}), may({ labelSelector: "l=1" }), may({ labelSelector: "l=2" })]).toEqual([true, true, false]);
  expect([may({ fieldSelector: "metadata.name=n" }), may({ fieldSelector: "metadata.namespace!=a" })]).toEqual([true, false]);
  // Which node is the server's to say: what is not known to be left out is waited for.
  expect(may({ fieldSelector: "spec.nodeName=other" })).toBe(true);
});

test("a transform may remove anything but the identity and version", () => {
  const metadata = { namespace: "a", name: "n", uid: "u", resourceVersion: "1" };
  const object = deepFreeze({ apiVersion: "v1", kind: "X", metadata, data: { large: "x" } });
  const withoutData = ({ apiVersion, kind, metadata: kept }: DeepReadonly<KubernetesObject>) => ({
    apiVersion,
    kind,
    metadata: kept,
  });
  expect(transformed(withoutData, object)).toEqual({ apiVersion: "v1", kind: "X", metadata });
  for (const field of ["namespace", "name", "uid", "resourceVersion"]) {
    const change = (): KubernetesObject => ({ ...object, metadata: { ...metadata, [field]: "other" } });
    expect(() => transformed(change, object)).toThrow(/must keep/);
  }
  expect(() => transformed(() => undefined as unknown as KubernetesObject, object)).toThrow(/must keep/);
});
