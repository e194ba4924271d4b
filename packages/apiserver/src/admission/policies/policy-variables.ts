import type { CelExpression } from "@keelson/api-machinery/server";

/** A compiled expression with a name. */
export interface NamedProgram {
  readonly name: string;
  readonly program: CelExpression;
}

/** The value of `variables`. Each variable is evaluated when an expression uses it, at most once. */
export function lazyVariables(programs: readonly NamedProgram[], values: Readonly<Record<string, unknown>>): object {
  const variables = {};
  for (const { name, program } of programs) {
    let cached: { readonly value: unknown } | undefined;
    const get = (): unknown => (cached ??= { value: program.evaluate({ ...values, variables }) }).value;
    Object.defineProperty(variables, name, { enumerable: true, get });
  }
  return variables;
}
