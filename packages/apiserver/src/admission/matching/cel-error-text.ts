/** The error of a CEL evaluation in the words of cel-go. */
export function celErrorText(error: unknown): string {
  const text = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
  const key = /^No such key: (.*)$/i.exec(text)?.[1];
  if (key !== undefined) return `no such key: ${key}`;
  const target = /^(\w+)\(\) type error: cannot convert to/.exec(text)?.[1];
  if (target !== undefined) return `type conversion error from 'string' to '${target}'`;
  return text;
}
