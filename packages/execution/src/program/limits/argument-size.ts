/** The kernel's limit of one argument or `NAME=value` pair, including its terminating NUL (MAX_ARG_STRLEN, execve(2)). */
export const maxArgumentBytes = 131_072;

/** The kernel's limit of all arguments and variables with the usual stack limit of 8 MiB (ARG_MAX). */
const maxArgumentsBytes = 2 * 1024 * 1024;

/** Each argument and variable also takes a pointer. */
const pointerBytes = 8;

/** Why the kernel would reject a command with E2BIG: the field, its size and the limit. Undefined if it would not. */
export function argumentSizeProblem(command: readonly string[], env: Readonly<Record<string, string>>): string | undefined {
  let total = 0;
  const fields = [
    ...command.map((value, index) => [`command[${index}]`, value] as const),
    ...Object.entries(env).map(([name, value]) => [`env ${name}`, `${name}=${value}`] as const),
  ];
  for (const [field, text] of fields) {
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > maxArgumentBytes) return `${field}: ${bytes} bytes exceed the kernel's limit of ${maxArgumentBytes} bytes`;
    total += bytes + pointerBytes;
  }
  if (total <= maxArgumentsBytes) return undefined;
  return `command and env: ${total} bytes exceed the kernel's limit of ${maxArgumentsBytes} bytes`;
}
