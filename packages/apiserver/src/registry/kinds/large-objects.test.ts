import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { expect, it } from "vitest";
import { builtinKinds } from "../builtin-kinds.ts";
import type { Causes } from "../causes.ts";
import type { ServedResource } from "../served-resource.ts";
import { noReviews } from "../testing/crd-samples.ts";
import { type LargeObject, largestObjects } from "../testing/largest-objects.ts";
import { countReads, type ReadCounter } from "../testing/read-counter.ts";

const kinds = builtinKinds({ clock: { now: () => Date.parse("2026-01-01T00:00:00Z") }, reviews: noReviews });

/** Enough to tell work for each item from work for each object, and linear from quadratic work. */
const values = 1_500;
/** Reads between two steps of a validation, for each value: those of a pass that collects the names of items, and no more. */
const maxReadsInStep = 4.2;
/** The same of a kind whose schema is compared and searched for rules as a whole. */
const maxSchemaReadsInStep = 12;
/** Reads of a validation, for each value. Each node of a CRD's schema has about 70 keywords. */
const maxReads = 100;

/** The large objects of a kind, without those whose collection belongs to a type that an earlier kind also has. */
const known = new Set<string>();
function newObjects(kind: ServedResource): readonly LargeObject[] {
  return largestObjects(kind, { values }).filter(({ type }) => !known.has(type) && known.add(type).size > 0);
}

/** The number of steps of a validation, the reads of the step with the most, and those of all. */
function work(
  counter: ReadCounter,
  causes: Causes | undefined,
): { readonly step: number; readonly total: number; readonly steps: number } {
  let step = 0;
  let steps = 0;
  let before = counter.reads;
  const first = before;
  for (const cause of causes ?? []) {
    if (cause !== undefined) continue;
    steps++;
    step = Math.max(step, counter.reads - before);
    before = counter.reads;
  }
  return { step: Math.max(step, counter.reads - before), total: counter.reads - first, steps };
}

/** Collections that are not checked item by item: compared or searched as a whole, or rejected for their number of items. */
const checkedAsWhole: readonly RegExp[] = [
  /^CronJob .*successPolicy\.rules: validate$/,
  /^CustomResourceDefinition .*: status\.validate$/,
  /^CustomResourceDefinition .*x-kubernetes-list-map-keys: validate$/,
  /^FlowSchema .*(?:verbs|apiGroups|resources): validate$/,
  /^PersistentVolume spec\.capacity: validate$/,
  /^ResourceClaim .*(?:requests|firstAvailable): validateCreate$/,
];

it("validates the largest objects of every kind in a step for each item, and in linear time", () => {
  const faults: string[] = [];
  for (const kind of kinds) {
    const { strategy } = kind;
    for (const { path, items, object: sent } of newObjects(kind)) {
      const object = draft(sent);
      strategy.default?.(object);
      const counter: ReadCounter = { reads: 0 };
      const read = countReads<KubernetesObject>(object, counter);
      const old = countReads<KubernetesObject>(draft(object), counter);
      const inStep = kind.kind === "CustomResourceDefinition" ? maxSchemaReadsInStep : maxReadsInStep;
      const check = (name: string, causesOf: () => Causes | undefined, hasSteps: boolean): void => {
        const { step, steps, total } = work(counter, causesOf());
        const at = `${kind.kind} ${path}: ${name}`;
        if (total > maxReads * values) faults.push(`${at} reads ${total} values`);
        if (!hasSteps) return;
        if (step > inStep * values) faults.push(`${at} reads ${step} values in a step`);
        const isChecked = total > 2 * items && !checkedAsWhole.some((pattern) => pattern.test(at));
        if (isChecked && steps < items) faults.push(`${at} takes ${steps} steps for ${items} items`);
      };
      check("validate", () => strategy.validate?.(read), true);
      check("status.validate", () => strategy.status?.validate?.(read, old), true);
      check("validateCreate", () => strategy.validateCreate?.(read), true);
      check("validateUpdate", () => strategy.validateUpdate?.(read, old), false);
      for (const { name, validateUpdate } of kind.subresources ?? []) {
        check(`${name}.validateUpdate`, () => validateUpdate?.(read, old), false);
      }
    }
  }
  expect(faults).toEqual([]);
});

it("shows three of the millions of addresses and ports of Endpoints", () => {
  const addresses = Array.from({ length: 10_000 }, () => ({ ip: "10.0.0.1" }));
  const ports = Array.from({ length: 10_000 }, (_, index) => ({ port: index + 1 }));
  const endpoints = { apiVersion: "v1", kind: "Endpoints", metadata: {}, subsets: [{ addresses, ports }] };
  const [shown] = kinds.find(({ plural }) => plural === "endpoints")?.cells?.(endpoints, 0) ?? [];
  expect(shown).toBe("10.0.0.1:1,10.0.0.1:1,10.0.0.1:1 + 99999997 more...");
});
