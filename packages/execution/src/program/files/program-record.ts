import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import type { Exited, RunningLimits } from "../../driver.ts";
import { openSealedText, sealText } from "../../files/sealed-text.ts";
import type { Identity } from "../../process/launcher.ts";
import type { StopReason } from "../program-exit.ts";

/** The content of a program's state.json. */
export type ProgramRecord =
  | { readonly kind: "starting" }
  | {
      readonly kind: "running";
      readonly identity: Identity;
      readonly startedAt: number;
      /** A stop is in progress. */
      readonly stop?: { readonly reason: StopReason; readonly graceMs: number };
      /** Limits that were changed while it runs. */
      readonly limits?: RunningLimits;
    }
  | { readonly kind: "exited"; readonly exited: Exited };

/** Serializes a record. */
export function serialiseRecord(record: ProgramRecord): string {
  return sealText(JSON.stringify(record));
}

const reasons: readonly unknown[] = ["Completed", "Error", "StartFailed", "Timeout", "Stopped", "OOMKilled", "Lost"];

function isExited(value: unknown): value is Exited {
  return (
    isJsonObject(value) &&
    value.kind === "exited" &&
    reasons.includes(value.reason) &&
    typeof value.message === "string" &&
    typeof value.exitCode === "number" &&
    typeof value.finishedAt === "number"
  );
}

function isIdentity(value: unknown): value is Identity {
  return isJsonObject(value) && Object.values(value).every((field) => typeof field === "string" || typeof field === "number");
}

function parseLimits(value: unknown): RunningLimits | undefined {
  if (!isJsonObject(value)) return undefined;
  const { cpuMillis, memoryBytes } = value;
  return { ...(typeof cpuMillis === "number" && { cpuMillis }), ...(typeof memoryBytes === "number" && { memoryBytes }) };
}

/** Parses a record; undefined if the text is not one. */
export function parseRecord(text: string): ProgramRecord | undefined {
  const value = parseJsonObject(openSealedText(text) ?? "");
  if (value === undefined) return undefined;
  if (value.kind === "exited" && isExited(value.exited)) return { kind: "exited", exited: value.exited };
  if (value.kind !== "running" || !isIdentity(value.identity) || typeof value.startedAt !== "number") return undefined;
  const { stop } = value;
  const isStop =
    isJsonObject(stop) && (stop.reason === "Stopped" || stop.reason === "Timeout") && typeof stop.graceMs === "number";
  const limits = parseLimits(value.limits);
  return {
    kind: "running",
    identity: value.identity,
    startedAt: value.startedAt,
    ...(isStop && { stop: { reason: stop.reason as StopReason, graceMs: stop.graceMs as number } }),
    ...(limits !== undefined && { limits }),
  };
}
