/** Ratio of the bounds of two adjacent buckets. A percentile is exact to half of it. */
const growth = 1.02;
const minSeconds = 0.001;
const maxBucket = 1_200;

/** Values of a histogram by bucket. */
type Buckets = ReadonlyMap<number, number>;

/**
 * Adds a duration to a histogram in its text form `bucket:count,...`. The text is bounded whatever the number of durations: buckets grow
 * by 2 %, so a percentile is exact to 1 %.
 */
export function addDuration(histogram: string | undefined, seconds: number): string {
  const buckets = new Map(parse(histogram));
  const bucket = bucketOf(seconds);
  buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
  return [...buckets]
    .sort(([a], [b]) => a - b)
    .map(([key, count]) => `${key}:${count}`)
    .join(",");
}

/** The duration that `percent` percent of the durations do not exceed, in seconds. Undefined for an empty histogram. */
export function percentile(histogram: string | undefined, percent: number): number | undefined {
  const buckets = [...parse(histogram)];
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  const rank = Math.max(Math.ceil((percent / 100) * total), 1);
  let seen = 0;
  for (const [bucket, count] of buckets) {
    seen += count;
    if (seen >= rank) return secondsOf(bucket);
  }
  return undefined;
}

/** The durations of a histogram in ascending order, merged into at most `maxBars` bars. */
export function histogramBars(histogram: string | undefined, maxBars: number): readonly HistogramBar[] {
  const buckets = [...parse(histogram)];
  const [first = 0] = buckets[0] ?? [];
  const [last = 0] = buckets.at(-1) ?? [];
  const size = Math.max(Math.ceil((last - first + 1) / maxBars), 1);
  const bars = Array.from({ length: buckets.length === 0 ? 0 : Math.floor((last - first) / size) + 1 }, (_, index) => ({
    seconds: secondsOf(first + index * size),
    count: 0,
  }));
  for (const [bucket, count] of buckets) {
    const bar = bars[Math.floor((bucket - first) / size)];
    if (bar !== undefined) bar.count += count;
  }
  return bars;
}

/** A bar of a histogram: `count` durations from about `seconds` to the next bar. */
export interface HistogramBar {
  readonly seconds: number;
  readonly count: number;
}

function bucketOf(seconds: number): number {
  if (!(seconds > minSeconds)) return 0;
  return Math.min(Math.ceil(Math.log(seconds / minSeconds) / Math.log(growth)), maxBucket);
}

/** Middle of a bucket. */
function secondsOf(bucket: number): number {
  if (bucket === 0) return 0;
  return Number((minSeconds * growth ** (bucket - 0.5)).toPrecision(4));
}

function parse(histogram: string | undefined): Buckets {
  const buckets = new Map<number, number>();
  for (const entry of (histogram ?? "").split(",")) {
    const [bucket, count] = entry.split(":").map(Number);
    if (Number.isInteger(bucket) && Number.isInteger(count)) buckets.set(bucket as number, count as number);
  }
  return buckets;
}
