import { isJsonObject } from "@keelson/api-machinery";
import type { LoadResult } from "../api/load-result.ts";
import { isAmount, isCount } from "../generator/figure-bounds.ts";
import { knownFigures } from "./k6-figures.ts";

type Json = Readonly<Record<string, unknown>>;

/** Maximum positions at which a summary is searched. */
const maxCandidates = 200;
/** Minimum rate from which a duration is derived. */
const minRate = 1e-6;

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
  const count = countOf(requests?.["count"]);
  const rate = amountOf(requests?.["rate"]);
  // `passes` of this metric counts the requests that failed.
  const failed = countOf(failures?.["passes"]);
  const runMs = isJsonObject(state) ? (amountOf(state["testRunDurationMs"]) ?? 0) : 0;
  const percentiles = percentilesOf(durations);
  return {
    source: "K6",
    state: "Complete",
    seconds: rounded(runMs > 0 ? runMs / 1_000 : secondsOf(count, rate)),
    ...knownFigures({ requests: count, failed, requestsPerSecond: rate }),
    ...latencyOf("minMilliseconds", durations?.["min"]),
    ...latencyOf("meanMilliseconds", durations?.["avg"]),
    ...(percentiles.length === 0 ? {} : { percentiles: [...percentiles] }),
    ...checksOf(checks),
  };
}

/** How long k6 ran, if its summary only has the rate. */
const secondsOf = (count = 0, rate = 0): number => (rate >= minRate ? count / rate : 0);

const latencyOf = (name: "minMilliseconds" | "meanMilliseconds", value: unknown): Partial<LoadResult> =>
  isAmount(value) ? { [name]: rounded(value) } : {};

/** Both counts or none: one of them alone would make a wrong percentage. */
function checksOf(checks: Json | undefined): Pick<LoadResult, "checksPassed" | "checksFailed"> {
  const [checksPassed, checksFailed] = [countOf(checks?.["passes"]), countOf(checks?.["fails"])];
  return checksPassed === undefined || checksFailed === undefined ? {} : { checksPassed, checksFailed };
}

type Percentiles = NonNullable<LoadResult["percentiles"]>;

/** `med`, `max` and `p(N)` of a trend. */
function percentilesOf(trend: Json | undefined): Percentiles {
  const found = Object.entries(trend ?? {}).flatMap(([name, value]): Percentiles => {
    const percentile =
      name === "med" ? 50 : name === "max" ? 100 : Number(/^p\((\d+(?:\.\d+)?)\)$/.exec(name)?.[1] ?? Number.NaN);
    return percentile <= 100 && isAmount(value) ? [{ percentile, milliseconds: rounded(value) }] : [];
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

const countOf = (value: unknown): number | undefined => (isCount(value) ? value : undefined);

const amountOf = (value: unknown): number | undefined => (isAmount(value) ? value : undefined);

const rounded = (value: number): number => Number(value.toFixed(3));
