import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { baselineChecks } from "./baseline-checks.ts";
import type { PodCheck, Violation } from "./pod-facts.ts";
import { restrictedChecks } from "./restricted-checks.ts";

/** A level of the Pod Security Standards. */
export type PodSecurityLevel = "privileged" | "baseline" | "restricted";

/** A level as of a version of Kubernetes. */
export interface LevelVersion {
  readonly level: PodSecurityLevel;
  /** `latest` or `v1.x`. */
  readonly version: string;
}

/** What a namespace requires of its Pods. */
export interface PodSecurityPolicy {
  readonly enforce: LevelVersion;
  readonly audit: LevelVersion;
  readonly warn: LevelVersion;
}

const levels: readonly PodSecurityLevel[] = ["privileged", "baseline", "restricted"];
const modes = ["enforce", "audit", "warn"] as const;
const prefix = "pod-security.kubernetes.io/";
const versionPattern = /^(?:latest|v1\.(0|[1-9]\d*))$/;

/** Reads the labels of a namespace. Missing levels are `privileged`, invalid ones `restricted`. */
export function policyOf(labels: Readonly<Record<string, string>> = {}): PodSecurityPolicy {
  const read = (mode: (typeof modes)[number]): LevelVersion => {
    const level = labels[`${prefix}${mode}`];
    const version = labels[`${prefix}${mode}-version`] ?? "latest";
    return {
      level: level === undefined ? "privileged" : (levels.find((known) => known === level) ?? "restricted"),
      version: versionPattern.test(version) ? version : "latest",
    };
  };
  return { enforce: read("enforce"), audit: read("audit"), warn: read("warn") };
}

/** Validates the labels of a namespace. */
export function labelCauses(labels: Readonly<Record<string, string>> = {}): readonly StatusCause[] {
  const causes: StatusCause[] = [];
  for (const mode of modes) {
    const [levelKey, versionKey] = [`${prefix}${mode}`, `${prefix}${mode}-version`];
    const level = labels[levelKey];
    if (level !== undefined && !levels.some((known) => known === level)) {
      causes.push(invalidCause(`metadata.labels[${levelKey}]`, level, `must be one of ${levels.join(", ")}`));
    }
    const version = labels[versionKey];
    if (version !== undefined && !versionPattern.test(version)) {
      causes.push(invalidCause(`metadata.labels[${versionKey}]`, version, 'must be "latest" or "v1.x"'));
    }
  }
  return causes;
}

/** Whether every Pod that `a` allows is allowed by `b`, both of the same version. */
export function isAtLeastAsStrict(a: LevelVersion, b: LevelVersion): boolean {
  return a.version === b.version && levels.indexOf(a.level) >= levels.indexOf(b.level);
}

/** `baseline:latest`. */
export function describeLevel({ level, version }: LevelVersion): string {
  return `${level}:${version}`;
}

/** The violations of a PodSpec, in the order of messages. */
export function violationsOf(spec: unknown, { level, version }: LevelVersion): readonly Violation[] {
  if (level === "privileged") return [];
  const minor = version === "latest" ? Number.POSITIVE_INFINITY : Number(version.slice("v1.".length));
  const applies = ({ since = 0 }: PodCheck): boolean => since <= minor;
  const restricted = level === "restricted" ? restrictedChecks.filter(applies) : [];
  const replaced = new Set(restricted.flatMap(({ replaces = [] }) => replaces));
  const baseline = baselineChecks.filter((check) => applies(check) && !replaced.has(check.id));
  return [...baseline, ...restricted].flatMap((check) => check.check(spec, minor) ?? []);
}

/** `privileged (...), host namespaces (...)`. */
export function describeViolations(violations: readonly Violation[]): string {
  return violations.map(({ reason, detail }) => `${reason} (${detail})`).join(", ");
}
