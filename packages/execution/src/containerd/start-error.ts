import { basename } from "node:path";

/** Why a program could not be executed, with the exit code that a shell would have given. */
export interface StartProblem {
  readonly message: string;
  readonly exitCode: 126 | 127;
}

/** What an OCI runtime's words mean; undefined where they are not about the program itself. */
export function startProblem(words: string): StartProblem | undefined {
  const quoted = /exec: \\?"([^"\\]*)\\?": (.*?)(?:: unknown)?$/.exec(words);
  const plain = /(?:^|: )exec (\/\S*): (.*)$/.exec(words);
  const [, program = "", reason = ""] = quoted ?? plain ?? [];
  if (program === "") return undefined;
  if (/executable file not found/.test(reason)) return { message: `${program}: not found in PATH`, exitCode: 127 };
  if (/no such file/.test(reason)) return { message: `${basename(program)}: not found (${program})`, exitCode: 127 };
  if (/is a directory/.test(reason)) return { message: `${program} is a directory, not a program`, exitCode: 126 };
  if (/permission denied/.test(reason)) return { message: `${program} may not be executed: permission denied`, exitCode: 126 };
  if (/exec format error/.test(reason)) {
    return { message: `${program} is a damaged program, or one for another kind of processor`, exitCode: 126 };
  }
  return { message: `${program}: ${reason}`, exitCode: 126 };
}
