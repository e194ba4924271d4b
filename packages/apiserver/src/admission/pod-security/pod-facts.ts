import type { JsonObject } from "@keelson/api-machinery";
import { listAt, objectsAt, textAt, valueAt } from "../../registry/object-fields.ts";

/** A violation of a Pod Security Standard: `privileged (container "a" must not set securityContext.privileged=true)`. */
export interface Violation {
  readonly reason: string;
  readonly detail: string;
}

/** One rule of the Pod Security Standards. */
export interface PodCheck {
  readonly id: string;
  /** Ids of the baseline checks that this restricted one replaces. */
  readonly replaces?: readonly string[];
  /** The first minor version of Kubernetes with this rule. */
  readonly since?: number;
  /** Checks a PodSpec by the rules of a minor version of Kubernetes. */
  check(spec: unknown, minor: number): Violation | undefined;
}

/** The minor version from which Pods with user namespaces (`hostUsers: false`) are exempt from rules about root. */
const userNamespacesSince = 35;
/** The minor version from which restricted rules skip what Windows lacks. */
const windowsSince = 25;

/** All containers of a PodSpec: init, regular, ephemeral. */
export function containersOf(spec: unknown): readonly JsonObject[] {
  return ["initContainers", "containers", "ephemeralContainers"].flatMap((field) => objectsAt(spec, field));
}

/** The names of containers or volumes. */
export function namesOf(containers: readonly unknown[]): readonly string[] {
  return containers.map((container) => textAt(container, "name"));
}

/** `"a", "b"`. */
export function quoted(values: readonly string[]): string {
  return values.map((value) => `"${value}"`).join(", ");
}

/** `container "a"`; `containers "a", "b"`. */
export function describeContainers(containers: readonly unknown[]): string {
  return `${containers.length === 1 ? "container" : "containers"} ${quoted(namesOf(containers))}`;
}

/** Distinct values in order. */
export function sorted(values: Iterable<string>): readonly string[] {
  return [...new Set(values)].sort();
}

/** A field of the securityContext of a Pod or container. */
export function securityAt(subject: unknown, ...path: readonly string[]): unknown {
  return valueAt(subject, "securityContext", ...path);
}

/** Whether restricted rules skip this Pod, because Windows lacks what they require. */
export const isWindows = (spec: unknown, minor: number): boolean =>
  minor >= windowsSince && textAt(spec, "os", "name") === "windows";

/** Whether a user namespace makes root in this Pod harmless. */
export const hasUserNamespace = (spec: unknown, minor: number): boolean =>
  minor >= userNamespacesSince && valueAt(spec, "hostUsers") === false;

/** The parts of a Pod whose value at a securityContext path is bad: `pod` and `container "a"`. */
export function badSetters(
  spec: unknown,
  path: readonly string[],
  isBad: (value: unknown) => boolean,
): { readonly setters: readonly string[]; readonly values: readonly string[] } {
  const values: string[] = [];
  const setters: string[] = [];
  const own = securityAt(spec, ...path);
  if (isBad(own)) {
    setters.push("pod");
    values.push(String(own));
  }
  const bad = containersOf(spec).filter((container) => isBad(securityAt(container, ...path)));
  if (bad.length > 0) {
    setters.push(describeContainers(bad));
    values.push(...bad.map((container) => String(securityAt(container, ...path))));
  }
  return { setters, values: sorted(values) };
}

/** Containers that add capabilities other than `allowed`. */
export function forbiddenCapabilities(spec: unknown, allowed: ReadonlySet<string>): string | undefined {
  const names: string[] = [];
  const bad = containersOf(spec).filter((container) => {
    const added = listAt(container, "securityContext", "capabilities", "add").map(String);
    const forbidden = added.filter((name) => !allowed.has(name));
    names.push(...forbidden);
    return forbidden.length > 0;
  });
  if (bad.length === 0) return undefined;
  return `${describeContainers(bad)} must not include ${quoted(sorted(names))} in securityContext.capabilities.add`;
}

/** Whether a seccomp profile type is set and not allowed by any level but `privileged`. */
export const isForbiddenSeccomp = (value: unknown): boolean =>
  typeof value === "string" && value !== "RuntimeDefault" && value !== "Localhost";

/** The fields exist since Kubernetes 1.19; before, profiles were annotations. */
export const seccompSince: number = 19;
