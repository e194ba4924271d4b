import { spawn } from "node:child_process";
import type { Deadlines } from "../program/deadlines.ts";
import type { TerminalSize } from "../driver.ts";
import type { ProcessList } from "../process/proc.ts";

/*
 * Terminals are allocated by script(1) of util-linux, which every machine has. It copies its input to the terminal and the terminal's
 * output to its own.
 */

const wordVariable = "KEELSON_WORD_";

/** The variable with {@link terminalScript}, so that `ps` does not show the script. */
const scriptVariable = "KEELSON_TERMINAL";

/**
 * What script(1) runs in its shell. It contains no argument of the command, only the names of variables that hold them; `env -u` removes
 * those variables from the command's environment.
 */
function terminalScript(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `${wordVariable}${index}`);
  const others = ["KEELSON_COLUMNS", "KEELSON_ROWS", scriptVariable];
  const unset = [...names, ...others].map((name) => `-u ${name}`).join(" ");
  const words = names.map((name) => `"$${name}"`).join(" ");
  return `stty cols "$KEELSON_COLUMNS" rows "$KEELSON_ROWS" 2>/dev/null; exec env ${unset} ${words}`;
}

/** Wraps a command so that it runs on a terminal of this size. Returns the arguments and environment to execute. */
export function terminalCommand(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  terminal: TerminalSize,
): {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
} {
  const variables = Object.fromEntries(command.map((word, index) => [`${wordVariable}${index}`, word]));
  return {
    words: ["script", "--quiet", "--return", "--command", `eval "$${scriptVariable}"`, "/dev/null"],
    env: {
      TERM: "xterm",
      ...env,
      ...variables,
      [scriptVariable]: terminalScript(command.length),
      SHELL: "/bin/sh",
      KEELSON_COLUMNS: String(terminal.columns),
      KEELSON_ROWS: String(terminal.rows),
    },
  };
}

/** `TIOCSWINSZ` on the architectures whose ioctl numbers follow asm-generic. */
const setWindowSizeRequest = 0x5414;
const genericIoctlArchitectures: readonly string[] = ["x64", "arm64", "arm", "riscv64", "loong64", "s390x"];

/** Sets rows and columns in one call. Arguments: device, request, rows, columns. */
const setWindowSizeScript =
  'open T, "+<", $ARGV[0] or exit 1; ioctl T, $ARGV[1], pack "S4", $ARGV[2], $ARGV[3], 0, 0 or exit 1';

/**
 * Sets the size of the terminal device at `path`. False if that failed, for example because the terminal is closed.
 *
 * stty(1) sets rows and columns in two calls, so that the program is signaled twice and the first time sees an intermediate
 * size. Perl, part of every Debian, sets both in one; stty is the fallback.
 */
export async function setTerminalSize(path: string, { columns, rows }: TerminalSize): Promise<boolean> {
  if (genericIoctlArchitectures.includes(process.arch)) {
    const isSet = await succeeds("perl", ["-e", setWindowSizeScript, path, setWindowSizeRequest, rows, columns]);
    if (isSet !== undefined) return isSet;
  }
  return (await succeeds("stty", ["-F", path, "cols", columns, "rows", rows])) ?? false;
}

/** Runs a command and returns whether it exited with 0. Undefined if it could not be started. */
function succeeds(command: string, args: readonly (string | number)[]): Promise<boolean | undefined> {
  const child = spawn(command, args.map(String), { stdio: "ignore" });
  return new Promise((resolve) => child.once("close", (code) => resolve(code === 0)).once("error", () => resolve(undefined)));
}

/** Sets the size of the terminal held by the script(1) process `pid`. False if the terminal does not exist yet, or no longer. */
async function resizeTerminal(pid: number, size: TerminalSize, processes: ProcessList): Promise<boolean> {
  const inside = (await processes.list()).find((stat) => stat.parent === pid);
  return inside !== undefined && setTerminalSize(`/proc/${inside.pid}/fd/0`, size);
}

/** Maximum pause, after 1, 2, 4 ... ms, while a resize waits for its terminal. */
const maxPauseMs = 4096;

/**
 * Sets the size of the terminal held by the script(1) process that `holder` returns, which may still be starting: applies the latest size
 * once the terminal exists, one change at a time.
 */
export function createResizer(
  holder: () => number | undefined,
  processes: ProcessList,
  deadlines: Deadlines,
): (size: TerminalSize) => Promise<void> {
  let wanted: TerminalSize | undefined;
  let running: Promise<void> | undefined;
  const apply = async (): Promise<void> => {
    for (let pauseMs = 1; wanted !== undefined && pauseMs <= maxPauseMs; pauseMs *= 2) {
      const size = wanted;
      const pid = holder();
      const isSet = pid !== undefined && (await resizeTerminal(pid, size, processes));
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
