import { spawn } from "node:child_process";
import type { Deadlines } from "../program/deadlines.ts";
import type { TerminalSize } from "../driver.ts";
import { listProcesses } from "../process/proc.ts";

/*
 * Terminals are made, and held, by script(1) of util-linux: the one program of a plain machine that does so. It copies what is typed
 * from its input, and what the terminal shows to its output.
 */

const wordVariable = "KEELSON_WORD_";

/**
 * What script(1) gives to its shell: no word of the command, only names of variables that have them, and that the command does
 * not get to see.
 */
function terminalScript(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `${wordVariable}${index}`);
  const sizes = ["KEELSON_COLUMNS", "KEELSON_ROWS"];
  const unset = [...names, ...sizes].map((name) => `-u ${name}`).join(" ");
  const words = names.map((name) => `"$${name}"`).join(" ");
  return `stty cols "$KEELSON_COLUMNS" rows "$KEELSON_ROWS" 2>/dev/null; exec env ${unset} ${words}`;
}

/** What runs a command in a terminal of this size, and the environment that says how. */
export function terminalWords(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  terminal: TerminalSize,
): {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
} {
  const variables = Object.fromEntries(command.map((word, index) => [`${wordVariable}${index}`, word]));
  return {
    words: ["script", "--quiet", "--return", "--command", terminalScript(command.length), "/dev/null"],
    env: {
      TERM: "xterm",
      ...env,
      ...variables,
      SHELL: "/bin/sh",
      KEELSON_COLUMNS: String(terminal.columns),
      KEELSON_ROWS: String(terminal.rows),
    },
  };
}

/** Tells the terminal that the script(1) `pid` holds its size. False where there is none: it has ended, or has not begun. */
export async function resizeTerminal(pid: number, { columns, rows }: TerminalSize): Promise<boolean> {
  const inside = (await listProcesses()).find((stat) => stat.parent === pid);
  if (inside === undefined) return false;
  const stty = spawn("stty", ["-F", `/proc/${inside.pid}/fd/0`, "cols", String(columns), "rows", String(rows)], {
    stdio: "ignore",
  });
  return new Promise((resolve) => stty.once("close", (code) => resolve(code === 0)).once("error", () => resolve(false)));
}

/** The last pause, of 1, 2, 4 ... ms, for a terminal that is asked for its size before it is there. */
const longestPauseMs = 4096;

/** {@link resizeTerminal} for a program that may just be starting: the newest size holds, as soon as there is a terminal. */
export function createResizer(holder: () => number | undefined, deadlines: Deadlines): (size: TerminalSize) => Promise<void> {
  let wanted: TerminalSize | undefined;
  let running: Promise<void> | undefined;
  const apply = async (): Promise<void> => {
    for (let pauseMs = 1; wanted !== undefined && pauseMs <= longestPauseMs; pauseMs *= 2) {
      const size = wanted;
      const pid = holder();
      const isSet = pid !== undefined && (await resizeTerminal(pid, size));
      if (isSet && wanted === size) return;
      await new Promise<void>((resolve) => void deadlines.after(isSet ? 0 : pauseMs, resolve));
    }
  };
  return (size) => {
    wanted = size;
    running ??= apply().finally(() => {
      running = undefined;
    });
    return running;
  };
}
