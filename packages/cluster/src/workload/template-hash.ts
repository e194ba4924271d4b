import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { PodTemplate } from "@keelson/api-machinery/kinds";

/** The label that distinguishes the Pods of a Deployment's ReplicaSets. */
export const templateHashLabel = "pod-template-hash";

// No vowels and no look-alike characters, so that hashes form no words (apimachinery `rand.SafeEncodeString`).
const alphabet = "bcdfghjklmnpqrstvwxz2456789";

/** Maps each character of a text to one that is safe in names. */
function safeEncode(text: string): string {
  return Array.from(text, (character) => alphabet[(character.codePointAt(0) ?? 0) % alphabet.length]).join("");
}

/** The 32-bit FNV-1a hash of a text in UTF-8. */
function fnv32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text, "utf8")) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** Canonical JSON with sorted keys: equal values give equal texts. */
export function stableJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((element) => stableJson(element ?? null)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const record = value as Record<string, unknown>;
  const keys = Object.keys(record).filter((key) => record[key] !== undefined);
  return `{${keys
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${stableJson(record[key])}`)
    .join(",")}}`;
}

/** A short hash of a JSON value for use in names. `collisionCount` resolves collisions. */
export function hashOf(value: unknown, collisionCount = 0): string {
  return safeEncode(String(fnv32(stableJson(value) + (collisionCount > 0 ? String(collisionCount) : ""))));
}

/** Whether two templates create the same Pods, ignoring the hash label. */
export function isSameTemplate(a: DeepReadonly<PodTemplate> | undefined, b: DeepReadonly<PodTemplate> | undefined): boolean {
  return jsonEquals(withoutHash(a), withoutHash(b));
}

function withoutHash(template: DeepReadonly<PodTemplate> | undefined): unknown {
  const { [templateHashLabel]: _hash, ...labels } = template?.metadata?.labels ?? {};
  const { annotations, creationTimestamp: _never, labels: _labels, ...metadata } = template?.metadata ?? {};
  // Absent and empty maps are equal.
  const some = (map: object | undefined): object | undefined => (map && Object.keys(map).length > 0 ? map : undefined);
  return { metadata: { ...metadata, labels: some(labels), annotations: some(annotations) }, spec: template?.spec };
}
