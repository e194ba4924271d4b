import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { PodTemplate } from "@keelson/api-machinery/kinds";

/** The label that tells the Pods of a Deployment's ReplicaSets apart. */
export const templateHashLabel = "pod-template-hash";

// No vowels, so that no words come out, and nothing that is read as something else (apimachinery `rand.SafeEncodeString`).
const alphabet = "bcdfghjklmnpqrstvwxz2456789";

/** A text as letters and digits that are safe in names: one for each character. */
export function safeEncode(text: string): string {
  return Array.from(text, (character) => alphabet[(character.codePointAt(0) ?? 0) % alphabet.length]).join("");
}

/** FNV-1a of a text's UTF-8, 32 bits. */
export function fnv32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text, "utf8")) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** JSON with keys in order, so that equal values give equal texts. */
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

/** A short name of a JSON value: other values have others, but for a collision, which another `collisionCount` resolves. */
export function hashOf(value: unknown, collisionCount = 0): string {
  return safeEncode(String(fnv32(stableJson(value) + (collisionCount > 0 ? String(collisionCount) : ""))));
}

/** Whether two templates make the same Pods, whatever their hash labels. */
export function isSameTemplate(a: DeepReadonly<PodTemplate> | undefined, b: DeepReadonly<PodTemplate> | undefined): boolean {
  return jsonEquals(withoutHash(a), withoutHash(b));
}

function withoutHash(template: DeepReadonly<PodTemplate> | undefined): unknown {
  const { [templateHashLabel]: _hash, ...labels } = template?.metadata?.labels ?? {};
  const { annotations, creationTimestamp: _never, labels: _labels, ...metadata } = template?.metadata ?? {};
  // Absent and empty are the same.
  const some = (map: object | undefined): object | undefined => (map && Object.keys(map).length > 0 ? map : undefined);
  return { metadata: { ...metadata, labels: some(labels), annotations: some(annotations) }, spec: template?.spec };
}
