import { renderTable } from "@keelson/operator";

/** A measured figure beside its peer, both of this run and this machine. */
export interface Figure {
  /** What was measured: `Task created -> program started, p50`. */
  readonly name: string;
  readonly unit: "ms" | "us" | "B" | "MiB" | "1/s" | "%";
  readonly ours: number;
  /** What it is measured against, and its figure of the same run. Left out where nothing comparable can be run. */
  readonly peer?: { readonly name: string; readonly value: number };
  /** What the original claims, or the floor that its design sets (a poll's period), in the same unit. Not measured here. */
  readonly original?: { readonly what: string; readonly value: number };
  /** What else a reader has to know: how often, on what. */
  readonly note?: string;
}

/** A benchmark: measures when it is run. */
export interface Benchmark {
  readonly name: string;
  run(): Promise<readonly Figure[]>;
}

/** The value below which `fraction` of the values lie (nearest rank). Throws for no values. */
export function percentile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.min(Math.max(Math.ceil(fraction * sorted.length) - 1, 0), sorted.length - 1)];
  if (value === undefined) throw new Error("percentile of no values");
  return value;
}

/** Figures as lines with aligned, tab-free columns and a heading. */
export function renderFigures(figures: readonly Figure[]): string {
  const rows = [
    ["FIGURE", "OURS", "PEER", "RATIO", "AGAINST", "ORIGINAL"],
    ...figures.map(({ name, unit, ours, peer, original, note }) => [
      name,
      `${round(ours)} ${unit}`,
      peer ? `${round(peer.value)} ${unit}` : "-",
      peer && peer.value > 0 ? `${round(ours / peer.value)}x` : "-",
      [peer?.name ?? "-", ...(note ? [`(${note})`] : [])].join(" "),
      original ? `${round(original.value)} ${unit} (${original.what})` : "-",
    ]),
  ];
  return renderTable(rows).trimEnd();
}

function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
