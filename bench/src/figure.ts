import { renderTable } from "@keelson/operator";

/** A measured value and that of its peer, both from this run and this machine. */
export interface Figure {
  /** What was measured: `Task created -> program started, p50`. */
  readonly name: string;
  /** Empty for a count. */
  readonly unit: "ms" | "us" | "B" | "MiB" | "1/s" | "%" | "";
  readonly ours: number;
  /** The value of the peer in the same run. Absent if there is no comparable peer, or it is missing on this machine. */
  readonly peer?: { readonly name: string; readonly value: number };
  /** What the original claims, or the lower bound of its design, such as a polling interval, in the same unit. Not measured here. */
  readonly original?: { readonly what: string; readonly value: number };
  /** Conditions of the measurement: number of runs, sizes. */
  readonly note?: string;
}

/** A benchmark. Throws a `MissingPeerError` if it cannot run on this machine at all. */
export interface Benchmark {
  readonly name: string;
  run(): Promise<readonly Figure[]>;
}

/** The value below which `fraction` of the values lie (nearest rank). Throws for no values. */
export function percentile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.min(Math.max(Math.ceil(fraction * sorted.length) - 1, 0), sorted.length - 1)];
  if (value === undefined) throw new RangeError("percentile of no values");
  return value;
}

/** Renders figures as a table. */
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
