import { ConversionError } from "./problem-list.ts";

/** CEL of JMESPath functions. */
const functions: Readonly<Record<string, (...args: readonly string[]) => string>> = {
  length: (value) => `size(${value})`,
  to_string: (value) => `string(${value})`,
  to_number: (value) => `double(${value})`,
  join: (separator, list) => `${list}.join(${separator})`,
  split: (text, separator) => `${text}.split(${separator})`,
  starts_with: (text, start) => `${text}.startsWith(${start})`,
  ends_with: (text, end) => `${text}.endsWith(${end})`,
  trim_space: (text) => `${text}.trim()`,
  to_upper: (text) => `${text}.upperAscii()`,
  to_lower: (text) => `${text}.lowerAscii()`,
  // Of lists and texts; only outputs of programs are known to be text.
  contains: (value, part) => (isText(value ?? "") ? `${value}.contains(${part})` : `${part} in ${value}`),
  json_parse: (text) => {
    if (text !== "result.stdout") throw new ConversionError(`json_parse(${text}): only $stdout can be parsed, as result.json`);
    return "result.json";
  },
};

const parameters: Readonly<Record<string, number>> = { join: 2, split: 2, starts_with: 2, ends_with: 2, contains: 2 };

const isText = (cel: string): boolean => /^result\.std(out|err)$|^'|\.trim\(\)$/.test(cel);

/** CEL of a function call. **Errors**: a {@link ConversionError} for a function without a counterpart. */
export function callOf(name: string, args: readonly string[]): string {
  const convert = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (convert === undefined) throw new ConversionError(`${name}(): this function has no counterpart in CEL`);
  const expected = parameters[name] ?? 1;
  if (args.length !== expected) throw new ConversionError(`${name}(): must have ${expected} arguments`);
  return convert(...args.map((arg) => (/ /.test(arg) && !isClosed(arg) ? `(${arg})` : arg)));
}

/** Whether a CEL text is a literal, so that it needs no parentheses. */
const isClosed = (cel: string): boolean => /^'(?:[^'\\]|\\.)*'$|^\[.*\]$/.test(cel);
