import type { Command, Operand, Pipe } from "./nodes.ts";

/** An operand as it is written, to name a missing key. Undefined for literals, functions and whole pipelines. */
function sourceOf(operand: Operand | undefined): string | undefined {
  if (operand === undefined) return undefined;
  const fields = operand.fields.map((field) => `.${field}`).join("");
  switch (operand.kind) {
    case "dot":
      return fields === "" ? "." : fields;
    case "variable":
      return `${operand.name.startsWith("$") ? "" : "$"}${operand.name}${fields}`;
    case "pipe":
      return fields === "" ? undefined : `(...)${fields}`;
    case "literal":
    case "function":
      return undefined;
  }
}

/**
 * Prefix of the error for the argument of a function that is a missing key. `piped`: the command whose value is the argument after the
 * operands.
 */
export function missingArgument(operands: readonly Operand[], index: number, piped?: Command): string {
  if (index >= operands.length) return piped === undefined ? "" : missingValue({ commands: [piped] });
  const source = sourceOf(operands[index]);
  return source === undefined ? "" : `${source}: `;
}

/** Prefix of the error for a pipeline whose value is a missing key: names it if the pipeline is only the key. */
export function missingValue({ commands }: Pick<Pipe, "commands">): string {
  const [command, ...others] = commands;
  return others.length > 0 || command?.operands.length !== 1 ? "" : missingArgument(command.operands, 0);
}
