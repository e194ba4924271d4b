import { MpiError } from "../mpi-error.ts";

const maxLineLength = 256 * 1024;
const blank = /[ \t]/;
/** Characters that make a shell do more than start a program. A line break ends a command. */
const special = /[;&|<>()$`*?[\]{}~#!\n\r]/;

/**
 * How Open MPI wraps a command if the launcher's account has the shell `sh` or `ksh`: as a login shell would, it reads a profile first. Workers
 * have none.
 */
const profileWrapping = /^\s*\( test ! -r \.\/\.profile \|\| \. \.\/\.profile;([^]*)\)\s*$/;

/**
 * Splits a line that mpiexec wants a remote shell to run into words, without a shell: `orted -mca ess "env"` becomes
 * `["orted", "-mca", "ess", "env"]`. Quotes and the backslash have the same meaning as in `sh`.
 *
 * **Errors**: {@link MpiError} `InvalidLaunchLine` if the line requires a shell (a second command, a variable, a redirection, a
 * pattern), has an unclosed quote, or is empty.
 */
export function launchWords(wrapped: string): string[] {
  const line = profileWrapping.exec(wrapped)?.[1] ?? wrapped;
  if (line.length > maxLineLength)
    throw invalid(`the launch line is ${line.length} characters long; must be at most ${maxLineLength}`);
  const words: string[] = [];
  let word: string | undefined;
  let quote: '"' | "'" | undefined;
  for (let index = 0; index < line.length; index++) {
    const char = line.charAt(index);
    if (quote === "'") {
      if (char === "'") quote = undefined;
      else word = (word ?? "") + char;
    } else if (quote === '"') {
      if (char === '"') quote = undefined;
      else if (char === "\\" && /["\\$`]/.test(line.charAt(index + 1))) word = (word ?? "") + line.charAt(++index);
      else if (char === "$" || char === "`") throw shellRequired(line, index);
      else word = (word ?? "") + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= "";
    } else if (char === "\\") {
      if (index + 1 >= line.length || line.charAt(index + 1) === "\n") throw shellRequired(line, index);
      word = (word ?? "") + line.charAt(++index);
    } else if (blank.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (special.test(char) && !isHarmless(char, word)) {
      throw shellRequired(line, index);
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== undefined) throw invalid(`the launch line has an unclosed ${quote}: ${excerpt(line, 0)}`);
  if (word !== undefined) words.push(word);
  const [program] = words;
  if (program === undefined || program === "") throw invalid("the launch line is empty");
  if (/^[A-Za-z_][A-Za-z0-9_]*=/.test(program))
    throw invalid(`the launch line sets a variable before its program: ${excerpt(line, 0)}`);
  return words;
}

/** `#` and `~` are special only at the start of a word. */
function isHarmless(char: string, word: string | undefined): boolean {
  return (char === "#" || char === "~") && word !== undefined;
}

function shellRequired(line: string, index: number): MpiError {
  const character = JSON.stringify(line.charAt(index));
  return invalid(`the launch line requires a shell for ${character} (character ${index + 1}): ${excerpt(line, index)}`);
}

function invalid(message: string): MpiError {
  return new MpiError("InvalidLaunchLine", message);
}

function excerpt(line: string, index: number): string {
  const start = Math.max(0, index - 40);
  return JSON.stringify(`${start > 0 ? "..." : ""}${line.slice(start, start + 120)}${line.length > start + 120 ? "..." : ""}`);
}
