import { expressionOf } from "./assertion-tree.ts";
import { celLiteral } from "./cel-text.ts";
import { jmesPathToCel } from "./jmespath-to-cel.ts";
import type { OperationScope } from "./operation-scope.ts";
import { ConversionError } from "./problem-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** The outputs of an operation. `root`: CEL of the value that their expressions are about. */
export function outputsOf(outputs: unknown, root: string, { variables, outputs: names }: OperationScope): Json {
  if (!Array.isArray(outputs)) return {};
  const converted = (outputs as readonly Json[]).map(({ name, match, value }) => {
    if (typeof name !== "string" || !/^[A-Za-z_]\w*$/.test(name))
      throw new ConversionError("outputs: names cannot be expressions");
    if (match !== undefined) throw new ConversionError("outputs: match is not converted; use an apply of one object");
    const source = expressionOf(value);
    names.add(name);
    return { name, cel: source === undefined ? celLiteral(value) : jmesPathToCel(source, { variables, root }) };
  });
  return converted.length === 0 ? {} : { outputs: converted };
}
