/** A measured figure beside its peer, both of this run and this machine. */
export interface Figure {
  /** What was measured: `Task created -> program started, p50`. */
  readonly name: string;
  readonly unit: "ms" | "MiB" | "1/s";
  readonly ours: number;
  /** What it is measured against, and its figure of the same run. */
  readonly peer: { readonly name: string; readonly value: number };
  /** What else a reader has to know: how often, on what, a figure that the original claims. */
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
    ["FIGURE", "OURS", "PEER", "RATIO", "AGAINST"],
    ...figures.map((figure) => [
      figure.name,
      `${round(figure.ours)} ${figure.unit}`,
      `${round(figure.peer.value)} ${figure.unit}`,
      figure.peer.value > 0 ? `${round(figure.ours / figure.peer.value)}x` : "-",
      figure.note ? `${figure.peer.name} (${figure.note})` : figure.peer.name,
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
