import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, qualifiedNameFaults, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { textAt, valueAt } from "../../object-fields.ts";

type Read = DeepReadonly<KubernetesObject>;

/*
 * Rules of Events. As in kube-apiserver, causes have the field names of core/v1 in both groups, except for the reporter's.
 */

function hasEventTime(event: Read): boolean {
  return typeof valueAt(event, "eventTime") === "string";
}

/** Validates an Event of either group in its stored form. `reporter` is the name of the reporting controller in that group. */
export function eventCauses(event: Read, reporter: string): StatusCause[] {
  const about = textAt(event, "involvedObject", "namespace");
  const { namespace = "" } = event.metadata;
  const isNew = hasEventTime(event);
  const ofCluster = isNew ? ["default", "kube-system"] : ["", "default"];
  const fits = about === "" ? ofCluster.includes(namespace) : isNew || about === namespace;
  return [
    ...(fits ? [] : [invalidCause("involvedObject.namespace", about, "does not match event.namespace")]),
    ...(isNew ? reportCauses(event, reporter) : []),
  ];
}

const maxTextBytes = 128;
const maxMessageBytes = 1024;

function reportCauses(event: Read, reporter: string): StatusCause[] {
  const name = textAt(event, "reportingComponent");
  return [
    ...(name === "" ? [requiredCause(reporter)] : []),
    ...qualifiedNameFaults(name).map((fault) => invalidCause(reporter, name, fault)),
    ...["reportingInstance", "action", "reason"].flatMap((field) => [
      ...check.nonEmpty(field, textAt(event, field)),
      ...sizeCauses(event, field, maxTextBytes),
    ]),
    ...sizeCauses(event, "message", maxMessageBytes),
  ];
}

function sizeCauses(event: Read, field: string, max: number): StatusCause[] {
  if (Buffer.byteLength(textAt(event, field)) <= max) return [];
  return [invalidCause(field, "", `can have at most ${max} characters`)];
}

/** Further rules for an Event that is created in events.k8s.io/v1, in its stored form. */
export function newEventCauses(event: Read): StatusCause[] {
  const type = textAt(event, "type");
  const unset = (field: string, isSet: boolean): StatusCause[] => (isSet ? [invalidCause(field, "", "needs to be unset")] : []);
  const hasText = (...path: readonly string[]): boolean => textAt(event, ...path) !== "";
  return [
    ...seriesCauses(event),
    ...(hasEventTime(event) ? [] : [requiredCause("eventTime")]),
    ...(type === "Normal" || type === "Warning" ? [] : [invalidCause("type", "", `has invalid value: ${type}`)]),
    ...unset("firstTimestamp", hasText("firstTimestamp")),
    ...unset("lastTimestamp", hasText("lastTimestamp")),
    ...unset("count", (valueAt(event, "count") ?? 0) !== 0),
    ...unset("source", hasText("source", "component") || hasText("source", "host")),
  ];
}

function seriesCauses(event: Read): StatusCause[] {
  const series = valueAt(event, "series");
  if (series === undefined || series === null) return [];
  return [
    ...(Number(valueAt(series, "count") ?? 0) < 2 ? [invalidCause("series.count", "", "should be at least 2")] : []),
    ...(textAt(series, "lastObservedTime") === "" ? [requiredCause("series.lastObservedTime")] : []),
  ];
}

const immutableFields = [
  "involvedObject",
  "reason",
  "message",
  "source",
  "firstTimestamp",
  "lastTimestamp",
  "count",
  "type",
  "eventTime",
  "action",
  "related",
  "reportingController",
  "reportingInstance",
];

/** Rules for an update in events.k8s.io/v1 of stored forms: only the series may change. */
export function changedEventCauses(event: Read, old: Read): StatusCause[] {
  const stored = (field: string): string => (field === "reportingController" ? "reportingComponent" : field);
  const changed = immutableFields.filter((field) => {
    const [now, before] = [event, old].map((each) => valueAt(each, stored(field)) ?? null);
    return !jsonEquals(now, before);
  });
  return [
    ...(jsonEquals(valueAt(event, "series"), valueAt(old, "series")) ? [] : seriesCauses(event)),
    ...changed.map((field) => invalidCause(field, valueAt(event, stored(field)) ?? null, "field is immutable")),
  ];
}
