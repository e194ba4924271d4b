import type { GeneratorReport, TimelinePoint } from "./generator-report.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import type { Outcome } from "./requester.ts";

/** Maximum points of a timeline. More are merged in pairs. */
const maxPoints = 120;
/** Maximum different causes of errors that are counted separately. */
const maxCauses = 20;

/** Counts the requests of a worker. Its size does not depend on their number. */
export class LoadRecorder {
  readonly #latencies = new LatencyHistogram();
  readonly #interval = new LatencyHistogram();
  readonly #statusCodes = new Map<string, number>();
  readonly #errors = new Map<string, number>();
  #timeline: TimelinePoint[] = [];
  #intervalSeconds = 1;
  #intervalStart = 0;
  #intervalFailed = 0;
  #intervalRequests = 0;
  #requests = 0;
  #failed = 0;
  #notSent = 0;
  #bytes = 0;

  /** Records a request that ended `atMs` after the start of the load. */
  record(atMs: number, latencyMs: number, { status, error, bytes, isExpected }: Outcome): void {
    this.#closeIntervals(atMs / 1_000);
    this.#latencies.record(latencyMs);
    this.#interval.record(latencyMs);
    this.#requests++;
    this.#intervalRequests++;
    this.#bytes += bytes;
    if (status !== undefined) increment(this.#statusCodes, String(status), maxCauses * 5);
    if (isExpected) return;
    this.#failed++;
    this.#intervalFailed++;
    if (error !== undefined) increment(this.#errors, error, maxCauses);
  }

  /** Records requests that were due and could not be sent. Their latency is at least how late they were. */
  notSent(lateMs: number, count: number): void {
    this.#notSent += count;
    this.#latencies.record(lateMs, count);
  }

  report(
    keelsonLoad: GeneratorReport["keelsonLoad"],
    elapsedMs: number,
    rest: Pick<GeneratorReport, "isComplete" | "maxPauseMs">,
  ): GeneratorReport {
    const isResult = keelsonLoad === "result";
    if (isResult) {
      this.#closeIntervals(elapsedMs / 1_000);
      if (this.#intervalRequests > 0) this.#closeInterval(elapsedMs / 1_000 - this.#intervalStart);
    }
    return {
      keelsonLoad,
      ...rest,
      seconds: elapsedMs / 1_000,
      ...{ requests: this.#requests, failed: this.#failed, notSent: this.#notSent, bytesReceived: this.#bytes },
      statusCodes: Object.fromEntries(this.#statusCodes),
      errors: Object.fromEntries(this.#errors),
      p50Ms: this.#latencies.percentileMs(50),
      p99Ms: this.#latencies.percentileMs(99),
      histogram: isResult ? this.#latencies.encode() : "",
      timeline: isResult ? this.#timeline : [],
    };
  }

  #closeIntervals(second: number): void {
    while (second >= this.#intervalStart + this.#intervalSeconds) this.#closeInterval(this.#intervalSeconds);
  }

  #closeInterval(seconds: number): void {
    this.#timeline.push({
      second: this.#intervalStart,
      seconds,
      requests: this.#intervalRequests,
      failed: this.#intervalFailed,
      p99Ms: this.#interval.percentileMs(99),
    });
    this.#intervalStart += seconds;
    this.#intervalRequests = 0;
    this.#intervalFailed = 0;
    this.#interval.reset();
    if (this.#timeline.length < maxPoints) return;
    this.#timeline = mergePairs(this.#timeline);
    this.#intervalSeconds *= 2;
  }
}

/** Merges adjacent points. */
function mergePairs(points: readonly TimelinePoint[]): TimelinePoint[] {
  const merged: TimelinePoint[] = [];
  for (let index = 0; index < points.length; index += 2) {
    const [first, second] = points.slice(index, index + 2);
    if (first === undefined) continue;
    merged.push(second === undefined ? first : mergedPoint(first, second));
  }
  return merged;
}

const mergedPoint = (a: TimelinePoint, b: TimelinePoint): TimelinePoint => ({
  second: a.second,
  seconds: a.seconds + b.seconds,
  requests: a.requests + b.requests,
  failed: a.failed + b.failed,
  p99Ms: Math.max(a.p99Ms, b.p99Ms),
});

function increment(counts: Map<string, number>, name: string, maxNames: number): void {
  const key = counts.has(name) || counts.size < maxNames ? name : "other";
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
