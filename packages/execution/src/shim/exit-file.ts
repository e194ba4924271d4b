/** The content of an exit file, one line each. */
export interface ExitFile {
  /** The program's own process and its start time. */
  readonly program?: { readonly pid: number; readonly startTime: number };
  /** The program could not be executed. */
  readonly execFailed: boolean;
  /** The program was never released: nothing ran. */
  readonly unreleased: boolean;
  /** The program could not enter a cgroup. */
  readonly outsideCgroup: boolean;
  /** The OOM killer killed it; only written by drivers whose cgroups are removed before the exit file is read. */
  readonly oomKilled: boolean;
  /** Absent while the program runs, and if the shim was killed. */
  readonly exitCode?: number;
  /** Whether the shell wrote more than these lines: a signal killed what it had executed. */
  readonly hasMessage: boolean;
}

/** Bytes reserved in an exit file; its lines need less than 100. */
export const exitFileBytes = 256;

const knownLine = /^(?:|pid \d+ \d+|exec-failed|unreleased|outside|oom|exit \d{1,3})$/;

/** Parses an exit file. */
export function parseExitFile(text: string): ExitFile {
  const program = /^pid (\d+) (\d+)$/m.exec(text);
  const exit = /^exit (\d{1,3})$/m.exec(text);
  return {
    ...(program !== null && { program: { pid: Number(program[1]), startTime: Number(program[2]) } }),
    execFailed: /^exec-failed$/m.test(text),
    unreleased: /^unreleased$/m.test(text),
    outsideCgroup: /^outside$/m.test(text),
    oomKilled: /^oom$/m.test(text),
    hasMessage: text.split("\n").some((line) => !knownLine.test(line)),
    ...(exit !== null && { exitCode: Number(exit[1]) }),
  };
}

/** The exit file of a program without a shim of ours. */
export function exitFileText({ exitCode, oomKilled }: { readonly exitCode: number; readonly oomKilled: boolean }): string {
  return `${oomKilled ? "oom\n" : ""}exit ${exitCode}\n`;
}
