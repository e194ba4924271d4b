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

describe("what of a kind is cached", () => {
  test("is all of all namespaces by default, and of a cluster-scoped kind whatever namespaces are named", () => {
    expect(selections(robotType, {})).toEqual({ "": {} });
    expect(selections(clusterType, { namespaces: ["a"] })).toEqual({ "": {} });
    expect(selections(robotType, { namespaces: ["a", "b"] })).toEqual({ a: {}, b: {} });
  });

  test("is what is set first in: the kind's namespace, the kind, the namespace, the default", () => {
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

  test("is said of a kind and of its metadata apart", () => {
    const options = { byObject: [cacheOf(metadataOf(Pod), { labelSelector: "x" })] };
    expect([selections(Pod, options), selections(metadataOf(Pod), options)]).toEqual([
      { "": {} },
      { "": { labelSelector: "x" } },
    ]);
  });
});

test("an object may be selected unless its labels, name or namespace say that it is not", () => {
  const object = { apiVersion: "v1", kind: "X", metadata: { namespace: "a", name: "n", labels: { l: "1" } } };
  const may = (selection: CacheSelection): boolean => mayBeSelected(selection, object);
  expect([may({}), may({ labelSelector: "l=1" }), may({ labelSelector: "l=2" })]).toEqual([true, true, false]);
  expect([may({ fieldSelector: "metadata.name=n" }), may({ fieldSelector: "metadata.namespace!=a" })]).toEqual([true, false]);
  // Which node is the server's to say: what is not known to be left out is waited for.
  expect(may({ fieldSelector: "spec.nodeName=other" })).toBe(true);
});

test("a transform may take away what it likes but what the cache knows an object by", () => {
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
    expect(() => transformed(change, object)).toThrow(/has to keep/);
  }
  expect(() => transformed(() => undefined as unknown as KubernetesObject, object)).toThrow(/has to keep/);
});
