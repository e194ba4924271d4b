/** A launch line that is more than a program and its arguments. Recognise it by `code`. */
export class LaunchLineError extends Error {
  override readonly name = "LaunchLineError";
  readonly code = "BadLaunchLine";
}

const maxLineLength = 256 * 1024;
const blank = /[ \t]/;
/** What would make a shell do more than start a program with these words. A line break ends a command, so it is one of them. */
const meaningful = /[;&|<>()$`*?[\]{}~#!\n\r]/;

/**
 * The words of a line that mpiexec wants a remote shell to run, without a shell: `orted -mca ess "env"` is
 * `["orted", "-mca", "ess", "env"]`. Single and double quotes and the backslash mean what they mean to `sh`.
 *
 * **Errors**: a {@link LaunchLineError} where the line asks for anything else of a shell (a second command, a variable, a
 * redirection, a pattern), where a quote is left open, and where there are no words.
 */
export function launchWords(line: string): string[] {
  if (line.length > maxLineLength)
    throw new LaunchLineError(`the launch line has ${line.length} characters, more than ${maxLineLength}`);
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
      else if (char === "$" || char === "`") throw refusal(line, index);
      else word = (word ?? "") + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= "";
    } else if (char === "\\") {
      if (index + 1 >= line.length || line.charAt(index + 1) === "\n") throw refusal(line, index);
      word = (word ?? "") + line.charAt(++index);
    } else if (blank.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (meaningful.test(char) && !isHarmless(char, word)) {
      throw refusal(line, index);
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== undefined) throw new LaunchLineError(`the launch line leaves a ${quote} open: ${excerpt(line, 0)}`);
  if (word !== undefined) words.push(word);
  const [program] = words;
  if (program === undefined || program === "") throw new LaunchLineError("the launch line is empty");
  if (/^[A-Za-z_][A-Za-z0-9_]*=/.test(program))
    throw new LaunchLineError(`the launch line sets a variable before its program: ${excerpt(line, 0)}`);
  return words;
}

/** `#` and `~` mean something to a shell only where a word starts. */
function isHarmless(char: string, word: string | undefined): boolean {
  return (char === "#" || char === "~") && word !== undefined;
}

function refusal(line: string, index: number): LaunchLineError {
  return new LaunchLineError(
    `the launch line needs a shell for ${JSON.stringify(line.charAt(index))} (character ${index + 1}): ${excerpt(line, index)}`,
  );
}

function excerpt(line: string, index: number): string {
  const start = Math.max(0, index - 40);
  return JSON.stringify(`${start > 0 ? "..." : ""}${line.slice(start, start + 120)}${line.length > start + 120 ? "..." : ""}`);
}
