import { isJsonObject } from "@keelson/api-machinery";
import type { LoadResult } from "../api/load-result.ts";

type Json = Readonly<Record<string, unknown>>;

/** Maximum positions at which a summary is searched. */
const maxCandidates = 200;

/**
 * The figures of the last k6 summary in an output: the JSON that `handleSummary` returns for `stdout`, or that
 * `--summary-export=/dev/stdout` writes. Undefined if there is none.
 */
export function parseK6Summary(output: string): LoadResult | undefined {
  const starts = [...output.matchAll(/^[ \t]*\{/gm)].slice(-maxCandidates);
  for (const { index, 0: match } of starts.toReversed()) {
    const summary = jsonAt(output, index + match.length - 1);
    if (isJsonObject(summary) && isJsonObject(summary["metrics"])) {
      const result = resultOf(summary["metrics"], summary["state"]);
      if (result !== undefined) return result;
    }
  }
  return undefined;
}

function resultOf(metrics: Json, state: unknown): LoadResult | undefined {
  const metric = (name: string): Json | undefined => {
    const found = Object.hasOwn(metrics, name) ? metrics[name] : undefined;
    if (!isJsonObject(found)) return undefined;
    return isJsonObject(found["values"]) ? found["values"] : found;
  };
  const [requests, durations, failures, checks] = ["http_reqs", "http_req_duration", "http_req_failed", "checks"].map(metric);
  if (requests === undefined && checks === undefined) return undefined;
  const count = numberOf(requests?.["count"]);
  const rate = numberOf(requests?.["rate"]);
  // `passes` of this metric counts the requests that failed.
  const failed = numberOf(failures?.["passes"]);
  const runMs = isJsonObject(state) ? numberOf(state["testRunDurationMs"]) : 0;
  const percentiles = percentilesOf(durations);
  return {
    source: "K6",
    state: "Complete",
    seconds: rounded(runMs > 0 ? runMs / 1_000 : rate > 0 ? count / rate : 0),
    requests: count,
    failed,
    errorPercent: count === 0 ? 0 : rounded((failed / count) * 100),
    requestsPerSecond: rounded(rate),
    ...(durations === undefined
      ? {}
      : { minMilliseconds: rounded(numberOf(durations["min"])), meanMilliseconds: rounded(numberOf(durations["avg"])) }),
    ...(percentiles.length === 0 ? {} : { percentiles: [...percentiles] }),
    ...(checks === undefined ? {} : { checksPassed: numberOf(checks["passes"]), checksFailed: numberOf(checks["fails"]) }),
  };
}

type Percentiles = NonNullable<LoadResult["percentiles"]>;

/** `med`, `max` and `p(N)` of a trend. */
function percentilesOf(trend: Json | undefined): Percentiles {
  const found = Object.entries(trend ?? {}).flatMap(([name, value]): Percentiles => {
    const percentile =
      name === "med" ? 50 : name === "max" ? 100 : Number(/^p\((\d+(?:\.\d+)?)\)$/.exec(name)?.[1] ?? Number.NaN);
    return Number.isFinite(percentile) && typeof value === "number" ? [{ percentile, milliseconds: rounded(value) }] : [];
  });
  return found.toSorted((a, b) => a.percentile - b.percentile).slice(0, 30);
}

/** The JSON object that starts at an index; undefined if it is not complete or not valid. */
function jsonAt(text: string, start: number): unknown {
  let depth = 0;
  let isText = false;
  for (let at = start; at < text.length; at++) {
    const mark = text[at];
    if (isText) {
      if (mark === "\\") at++;
      else if (mark === '"') isText = false;
    } else if (mark === '"') isText = true;
    else if (mark === "{") depth++;
    else if (mark === "}" && --depth === 0) return parsed(text.slice(start, at + 1));
  }
  return undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const numberOf = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0);

const rounded = (value: number): number => Number(value.toFixed(3));
