import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadResult } from "../api/load-result.ts";
import { escape } from "./escape-html.ts";

type Load = DeepReadonly<LoadResult>;
type Points = NonNullable<Load["timeline"]>;

const [width, height, margin] = [640, 160, 20];

/** The figures of a load: a table, its latencies, and requests, failures and latency over time. */
export function loadFigure(load: Load): string {
  return [table(load), percentiles(load), overTime(load.timeline ?? [])].join("\n");
}

function table(load: Load): string {
  const { requests, failed, notSent, errorPercent, requestsPerSecond, seconds, workers, maxPauseMilliseconds } = load;
  const rows: readonly (readonly [string, string | undefined])[] = [
    [
      "Requests",
      requests === undefined
        ? undefined
        : `${requests} in ${seconds} s${requestsPerSecond === undefined ? "" : ` (${requestsPerSecond}/s)`}`,
    ],
    [
      "Failed",
      failed === undefined
        ? undefined
        : `${failed}${errorPercent === undefined ? "" : ` (${errorPercent} % of the due requests)`}`,
    ],
    ["Not sent", shown(notSent)],
    [
      "Latency",
      load.meanMilliseconds === undefined ? undefined : `mean ${load.meanMilliseconds} ms, min ${load.minMilliseconds ?? 0} ms`,
    ],
    ["Status codes", counts(load.statusCodes)],
    ["Errors", counts(load.errors)],
    ["k6 checks", load.checksPassed === undefined ? undefined : `${load.checksPassed} held, ${load.checksFailed ?? 0} failed`],
    [
      "Measured by",
      `${load.source}${workers === undefined ? "" : `, ${workers} workers`}${load.state === "Complete" ? "" : `, ${load.state}`}`,
    ],
    ["Longest pause of a worker", maxPauseMilliseconds === undefined ? undefined : `${maxPauseMilliseconds} ms`],
  ];
  const body = rows.flatMap(([name, value]) =>
    value === undefined ? [] : [`<tr><th>${name}</th><td>${escape(value)}</td></tr>`],
  );
  return `<table><tbody>${body.join("")}</tbody></table>`;
}

const shown = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));

function counts(values: Readonly<Record<string, number>> | undefined): string | undefined {
  const entries = Object.entries(values ?? {});
  return entries.length === 0 ? undefined : entries.map(([name, count]) => `${name}: ${count}`).join(", ");
}

/** A time that fits above a bar: three digits. */
const shortTime = (ms: number): string =>
  ms < 999.5 ? `${Number(ms.toPrecision(3))} ms` : `${Number((ms / 1_000).toPrecision(3))} s`;

/** One bar per percentile, on a logarithmic scale. */
function percentiles({ percentiles: found = [] }: Load): string {
  const max = Math.max(...found.map(({ milliseconds }) => milliseconds), 0);
  if (max === 0) return "";
  const scale = (ms: number): number => (Math.log1p(ms) / Math.log1p(max)) * (height - margin * 2);
  const step = width / found.length;
  const bars = found.map(({ percentile, milliseconds }, index) => {
    const size = scale(milliseconds);
    const [x, y] = [index * step, height - margin - size];
    const label = percentile === 100 ? "max" : `p${percentile}`;
    return (
      `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${(step - 4).toFixed(1)}" height="${size.toFixed(1)}" fill="#0969da"><title>${label}: ${milliseconds} ms</title></rect>` +
      `<text x="${(x + step / 2 - 2).toFixed(1)}" y="${height - 6}" text-anchor="middle">${label}</text>` +
      `<text x="${(x + step / 2 - 2).toFixed(1)}" y="${(y - 4).toFixed(1)}" text-anchor="middle">${shortTime(milliseconds)}</text>`
    );
  });
  return figure("Latency by percentile", bars, "Latency by percentile, logarithmic scale");
}

/** Requests per second with the failed ones in red, and the 99th percentile as a line. */
function overTime(points: Points): string {
  if (points.length === 0) return "";
  const rates = points.map(({ requests, seconds }) => (seconds > 0 ? requests / seconds : 0));
  const [topRate, topLatency] = [
    Math.max(...rates, 1),
    Math.max(...points.map(({ p99Milliseconds }) => p99Milliseconds), 0.001),
  ];
  const inner = height - margin;
  const step = width / points.length;
  const bars = points.map(({ second, requests, failed, seconds, p99Milliseconds }, index) => {
    const size = ((rates[index] ?? 0) / topRate) * (inner - margin);
    const bad = requests > 0 ? (failed / requests) * size : 0;
    const x = (index * step).toFixed(1);
    const bar = (from: number, length: number, color: string): string =>
      `<rect x="${x}" y="${from.toFixed(1)}" width="${Math.max(step - 1, 1).toFixed(1)}" height="${length.toFixed(1)}" fill="${color}"/>`;
    const title = `second ${second}: ${requests} requests in ${seconds} s, ${failed} failed, p99 ${p99Milliseconds} ms`;
    return `<g><title>${title}</title>${bar(inner - size, size - bad, "#0969da")}${bar(inner - bad, bad, "#cf222e")}</g>`;
  });
  const line = points
    .map(({ p99Milliseconds }, index) => {
      const y = inner - (p99Milliseconds / topLatency) * (inner - margin);
      return `${((index + 0.5) * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
  const last = points.at(-1);
  const labels = [
    `<text x="0" y="12">up to ${topRate.toFixed(topRate < 10 ? 1 : 0)} requests/s, p99 up to ${topLatency} ms</text>`,
    `<text x="0" y="${height - 4}">0 s</text>`,
    `<text x="${width}" y="${height - 4}" text-anchor="end">${(last?.second ?? 0) + (last?.seconds ?? 0)} s</text>`,
  ];
  const drawn = [...bars, `<polyline points="${line}" fill="none" stroke="#bf8700" stroke-width="2"/>`, ...labels];
  return figure("Load over time", drawn, "Requests per second (failed ones in red) and 99th percentile (line) over time");
}

const figure = (label: string, parts: readonly string[], caption: string): string =>
  `<figure><svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}" font-size="11" fill="currentColor">${parts.join("")}</svg><figcaption>${caption}</figcaption></figure>`;
