import { isJsonObject } from "@keelson/api-machinery";
import { isAmount, isCount } from "./figure-bounds.ts";

/** Figures that a worker prints, one JSON object per line: `progress` every second, `result` at the end. */
export interface GeneratorReport {
  readonly keelsonLoad: "progress" | "result";
  /** Whether the worker did all of its plan. */
  readonly isComplete: boolean;
  readonly seconds: number;
  readonly requests: number;
  readonly failed: number;
  readonly notSent: number;
  readonly bytesReceived: number;
  readonly statusCodes: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, number>>;
  /** Longest pause of the worker's event loop. */
  readonly maxPauseMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Encoded latencies. Empty in a progress report. */
  readonly histogram: string;
  readonly timeline: readonly TimelinePoint[];
}

/** An interval of the load. */
export interface TimelinePoint {
  readonly second: number;
  readonly seconds: number;
  readonly requests: number;
  readonly failed: number;
  readonly p99Ms: number;
}

/** The last report in an output, or undefined. */
export function lastReport(output: string): GeneratorReport | undefined {
  for (const line of output.trimEnd().split("\n").toReversed()) {
    const report = line.startsWith('{"keelsonLoad"') ? parsed(line) : undefined;
    if (report !== undefined) return report;
  }
  return undefined;
}

const amounts = ["seconds", "maxPauseMs", "p50Ms", "p99Ms"] as const;
const counts = ["requests", "failed", "notSent", "bytesReceived"] as const;
/** Maximum length of a status or the cause of an error. */
const maxNameLength = 64;

/** The Pod is the test author's, so its output is validated. */
function parsed(line: string): GeneratorReport | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isReport(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isReport(value: unknown): value is GeneratorReport {
  return (
    isJsonObject(value) &&
    (value["keelsonLoad"] === "progress" || value["keelsonLoad"] === "result") &&
    typeof value["isComplete"] === "boolean" &&
    typeof value["histogram"] === "string" &&
    amounts.every((name) => isAmount(value[name])) &&
    counts.every((name) => isCount(value[name])) &&
    isCounts(value["statusCodes"]) &&
    isCounts(value["errors"]) &&
    Array.isArray(value["timeline"]) &&
    value["timeline"].length <= 1_000 &&
    value["timeline"].every(isPoint)
  );
}

const isCounts = (value: unknown): boolean =>
  isJsonObject(value) &&
  Object.keys(value).length <= 200 &&
  Object.entries(value).every(([name, count]) => name.length <= maxNameLength && isCount(count));

const isPoint = (value: unknown): boolean =>
  isJsonObject(value) &&
  ["second", "seconds", "p99Ms"].every((name) => isAmount(value[name])) &&
  ["requests", "failed"].every((name) => isCount(value[name]));
