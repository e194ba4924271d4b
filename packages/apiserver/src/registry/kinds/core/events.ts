import { type DeepReadonly, draft, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import { age } from "../../../table/human-duration.ts";
import { builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { changedEventCauses, eventCauses, newEventCauses } from "./event-validation.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Events, stored once and served in two groups, v1 and events.k8s.io/v1, with different field names. */
export function eventKinds(): readonly ServedResource[] {
  return [coreEvents, groupEvents];
}

const columns = [
  column("Last Seen", "When it was last seen."),
  column("Type", "Normal or Warning."),
  column("Reason", "The reason, in one word."),
  column("Object", "The involved object."),
  column("Subobject", "The involved part of the object.", { wide: true }),
  column("Source", "The reporting component.", { wide: true }),
  column("Message", "What happened."),
  column("First Seen", "When it was first seen.", { wide: true }),
  column("Count", "How often it was seen.", { wide: true }),
  column("Name", "The name of the Event itself.", { wide: true, format: "name" }),
];

/** Cells, read from the stored form. */
function cells(event: unknown, name: string, now: number): readonly (string | number)[] {
  const firstSeen = age(valueAt(event, "firstTimestamp") ?? valueAt(event, "eventTime"), now);
  const series = valueAt(event, "series");
  const lastSeen =
    series !== undefined && series !== null
      ? age(valueAt(series, "lastObservedTime"), now)
      : valueAt(event, "lastTimestamp")
        ? age(valueAt(event, "lastTimestamp"), now)
        : firstSeen;
  const count = valueAt(series, "count") ?? valueAt(event, "count");
  const kind = textAt(event, "involvedObject", "kind").toLowerCase();
  const objectName = textAt(event, "involvedObject", "name");
  return [
    lastSeen,
    textAt(event, "type"),
    textAt(event, "reason"),
    objectName === "" ? kind : `${kind}/${objectName}`,
    textAt(event, "involvedObject", "fieldPath"),
    sourceOf(event),
    textAt(event, "message").trim(),
    firstSeen,
    typeof count === "number" && count > 0 ? count : 1,
    name,
  ];
}

function sourceOf(event: unknown): string {
  const component = textAt(event, "source", "component") || textAt(event, "reportingComponent");
  const instance = textAt(event, "source", "host") || textAt(event, "reportingInstance");
  return instance === "" ? component : `${component}, ${instance}`;
}

const referenceFields = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

function referenceSelectors(field: string): ServedResource["selectableFields"] {
  const selectors: Record<string, (object: Read) => string> = {};
  for (const part of referenceFields) selectors[`${field}.${part}`] = (object) => textAt(object, field, part);
  return selectors;
}

const coreEvents = builtinResource({
  group: "",
  version: "v1",
  kind: "Event",
  plural: "events",
  shortNames: ["ev"],
  scope: "Namespaced",
  columns,
  cells: (object, now) => cells(object, object.metadata.name ?? "", now),
  selectableFields: {
    ...referenceSelectors("involvedObject"),
    reason: (object) => textAt(object, "reason"),
    reportingComponent: (object) => textAt(object, "reportingComponent"),
    source: (object) => textAt(object, "source", "component") || textAt(object, "reportingComponent"),
    type: (object) => textAt(object, "type"),
  },
  strategy: {
    hasGeneration: false,
    prepareForCreate: setDefaults,
    prepareForUpdate: setDefaults,
    validate: (object) => eventCauses(object, "reportingComponent"),
  },
});

const groupEvents = builtinResource({
  group: "events.k8s.io",
  version: "v1",
  kind: "Event",
  plural: "events",
  shortNames: ["ev"],
  scope: "Namespaced",
  columns,
  cells: (object, now) => cells(toStorage(object), object.metadata.name ?? "", now),
  selectableFields: {
    ...referenceSelectors("regarding"),
    reason: (object) => textAt(object, "reason"),
    reportingController: (object) => textAt(object, "reportingController"),
    type: (object) => textAt(object, "type"),
  },
  storageApiVersion: "v1",
  conversion: { fromStorage, toStorage },
  strategy: {
    hasGeneration: false,
    validate: (object) => eventCauses(toStorage(object), "reportingController"),
    validateCreate: (object) => newEventCauses(toStorage(object)),
    validateUpdate: (object, old) => changedEventCauses(toStorage(object), toStorage(old)),
  },
});

/** Fields renamed in events.k8s.io/v1: the name there and the stored name. */
const renamed: readonly (readonly [string, string])[] = [
  ["regarding", "involvedObject"],
  ["note", "message"],
  ["deprecatedSource", "source"],
  ["deprecatedFirstTimestamp", "firstTimestamp"],
  ["deprecatedLastTimestamp", "lastTimestamp"],
  ["deprecatedCount", "count"],
  ["reportingController", "reportingComponent"],
];
const toCoreName = new Map(renamed);
const fromCoreName = new Map(renamed.map(([name, core]) => [core, name]));

function rename(object: Read, apiVersion: string, names: ReadonlyMap<string, string>): KubernetesObject {
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object)) setOwn(result, names.get(name) ?? name, draft(value));
  return { ...(result as unknown as KubernetesObject), apiVersion };
}

function fromStorage(object: Read): KubernetesObject {
  return rename(object, "events.k8s.io/v1", fromCoreName);
}

function toStorage(object: Read): KubernetesObject {
  const stored = rename(object, "v1", toCoreName);
  setDefaults(stored);
  return stored;
}

/** Fields that Kubernetes always writes. */
function setDefaults(object: KubernetesObject): void {
  ensureMap(object, "involvedObject");
  ensureMap(object, "source");
  for (const field of ["reportingComponent", "reportingInstance"]) {
    if (valueAt(object, field) === undefined) setField(object, field, "");
  }
  // Absent times that are not pointers in Go are null.
  for (const field of ["eventTime", "firstTimestamp", "lastTimestamp"]) {
    if (valueAt(object, field) === undefined) setField(object, field, null);
  }
}
