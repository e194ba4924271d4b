import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** Names an object in another one (core/v1 ObjectReference). */
export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

/** Something that happened to an object (events.k8s.io/v1 Event). */
export interface Event extends KubernetesObject {
  /** RFC 3339 with microseconds. */
  eventTime: string;
  series?: { count: number; lastObservedTime: string };
  reportingController?: string;
  reportingInstance?: string;
  action?: string;
  reason?: string;
  regarding?: ObjectReference;
  related?: ObjectReference;
  note?: string;
  type?: string;
}

/** The kind {@link Event}. */
export const eventType: ResourceType<Event> = {
  group: "events.k8s.io",
  version: "v1",
  kind: "Event",
  plural: "events",
  scope: "Namespaced",
};
