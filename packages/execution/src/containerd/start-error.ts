import { basename } from "node:path";

/** Why a program could not be executed, with the exit code that a shell would return. */
export interface StartError {
  readonly message: string;
  readonly exitCode: 126 | 127;
}

/** Parses an OCI runtime's error message; undefined if it is not about the program itself. */
export function parseStartError(text: string): StartError | undefined {
  const quoted = /exec: \\?"([^"\\]*)\\?": (.*?)(?:: unknown)?$/.exec(text);
  const plain = /(?:^|: )exec (\/\S*): (.*)$/.exec(text);
  const [, program = "", reason = ""] = quoted ?? plain ?? [];
  if (program === "") return undefined;
  if (/executable file not found/.test(reason)) return { message: `${program}: not found in PATH`, exitCode: 127 };
  if (/no such file/.test(reason)) return { message: `${basename(program)}: not found (${program})`, exitCode: 127 };
  if (/is a directory/.test(reason)) return { message: `${program} is a directory, not a program`, exitCode: 126 };
  if (/permission denied/.test(reason)) return { message: `${program}: permission denied`, exitCode: 126 };
  if (/exec format error/.test(reason)) {
    return { message: `${program} is damaged or built for another CPU architecture`, exitCode: 126 };
  }
  return { message: `${program}: ${reason}`, exitCode: 126 };
}
