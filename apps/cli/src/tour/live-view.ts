import type { Clock, Timer } from "@keelson/api-machinery/time";

/** A line of the live view: a workload, or a part of one. */
export interface Row {
  /** Unique and in the order of the view: `hello`, `hello/greet`, `hello/greet/0`. */
  readonly key: string;
  /** Nesting depth below the workload. */
  readonly depth: number;
  readonly kind: string;
  readonly name: string;
  /** The state as its kind names it; empty while unknown. */
  readonly state: string;
  /** Where it runs, or what it waits for. */
  readonly note: string;
  readonly mood: "waiting" | "running" | "good" | "bad";
}

/** Shows rows as they change: redrawn in place on a terminal, otherwise one line per change. */
export interface LiveView {
  update(rows: readonly Row[]): void;
  /** Draws the final state. */
  finish(): void;
}

const colours = { waiting: "\u001b[2m", running: "\u001b[36m", good: "\u001b[32m", bad: "\u001b[31m" } as const;
const reset = "\u001b[0m";

/** Creates a {@link LiveView} on `out`. */
export function createLiveView(out: NodeJS.WriteStream, clock: Clock): LiveView {
  return out.isTTY ? createTerminalView(out, clock) : createLineView(out, clock);
}

/** Renders rows as aligned lines under a heading, truncated to `width` columns. */
export function renderRows(
  rows: readonly Row[],
  elapsedMs: number,
  options: { readonly width: number; readonly colour: boolean },
): string[] {
  const names = rows.map((row) => `${"  ".repeat(row.depth)}${row.name}`);
  const columns = {
    kind: maxWidth(
      "KIND",
      rows.map((row) => row.kind),
    ),
    name: maxWidth("NAME", names),
    state: maxWidth(
      "STATE",
      rows.map((row) => row.state),
    ),
  };
  const line = (kind: string, name: string, state: string, note: string): string =>
    `${kind.padEnd(columns.kind)}  ${name.padEnd(columns.name)}  ${state.padEnd(columns.state)}  ${note}`
      .trimEnd()
      .slice(0, options.width);
  const heading = line("KIND", "NAME", "STATE", `${(elapsedMs / 1000).toFixed(1)} s`);
  const body = rows.map((row, index) => {
    const text = line(row.kind, names[index] ?? row.name, row.state, row.note);
    return options.colour ? `${colours[row.mood]}${text}${reset}` : text;
  });
  return [heading, ...body];
}

function maxWidth(heading: string, cells: readonly string[]): number {
  return cells.reduce((width, cell) => Math.max(width, cell.length), heading.length);
}

function createTerminalView(out: NodeJS.WriteStream, clock: Clock): LiveView {
  const started = clock.monotonic();
  const colour = process.env.NO_COLOR === undefined && out.hasColors?.() !== false;
  let rows: readonly Row[] = [];
  let drawn = 0;
  let pending: Timer | undefined;
  const draw = (): void => {
    pending = undefined;
    const height = Math.max((out.rows ?? 24) - 1, 2);
    const lines = renderRows(rows, clock.monotonic() - started, { width: out.columns ?? 80, colour }).slice(0, height);
    const back = drawn > 0 ? `\u001b[${drawn}A` : "";
    out.write(`${back}\u001b[0J${lines.join("\n")}\n`);
    drawn = lines.length;
  };
  return {
    update(next) {
      rows = next;
      // Changes arrive in bursts; 20 frames a second look continuous.
      pending ??= clock.setTimer(50, draw);
    },
    finish() {
      pending?.cancel();
      draw();
      drawn = 0;
    },
  };
}

function createLineView(out: NodeJS.WriteStream, clock: Clock): LiveView {
  const started = clock.monotonic();
  const shown = new Map<string, string>();
  return {
    update(rows) {
      for (const row of rows) {
        const text = [row.kind, row.name, row.state, row.note].join("\t").trimEnd();
        if (row.state === "" || shown.get(row.key) === text) continue;
        shown.set(row.key, text);
        out.write(`${((clock.monotonic() - started) / 1000).toFixed(2)} s\t${text}\n`);
      }
    },
    finish() {},
  };
}
