import { isJsonObject } from "@keelson/api-machinery";
import { convertAssertion, convertTemplate, expressionOf } from "./assertion-tree.ts";
import { outputsOf } from "./chainsaw-outputs.ts";
import type { Variables } from "./jmespath-to-cel.ts";
import type { OperationScope } from "./operation-scope.ts";
import { ConversionError } from "./problem-list.ts";
import { textOf, timeoutOf } from "./step-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** Variables of the checks of a program. */
const programVariables = [
  ["stdout", "result.stdout"],
  ["stderr", "result.stderr"],
] as const;

/** Converts a script, or a command. */
export function convertProgram(operation: Json, prefix: string, scope: OperationScope): void {
  const { content, entrypoint, args, env, check, timeout, outputs, workDir } = operation;
  if (workDir !== undefined) throw new ConversionError("workDir: programs run in a Pod, not in the directory of the test");
  const variables = new Map([...scope.variables, ...programVariables]);
  const script = typeof content === "string" ? content : commandLine(textOf(entrypoint, "entrypoint"), args);
  const [first = ""] = script.split("\n").filter((line) => line.trim() !== "");
  scope.steps.add(`${prefix}run ${first.slice(0, 60)}`, {
    script: {
      content: script,
      ...(Array.isArray(env) && env.length > 0 ? { env: convertTemplate(env, scope.variables) } : {}),
    },
    ...timeoutOf(timeout, scope.timeouts["exec"]),
    ...checksOf(check, variables),
    ...outputsOf(outputs, "result.stdout", { ...scope, variables }),
  });
  scope.list.remark("scripts run in Pods: set image to one with their programs, and spec.serviceAccountName for kubectl");
}

/** A command line whose variables the shell expands, as chainsaw does. */
function commandLine(entrypoint: string, args: unknown): string {
  const parts = (Array.isArray(args) ? args : []).map((arg) => `"${String(arg).replaceAll(/(["\\`])/g, "\\$1")}"`);
  return [entrypoint, ...parts].join(" ");
}

/** The checks of a program. `$error` is set if it failed. */
function checksOf(check: unknown, variables: Variables): Json {
  if (!isJsonObject(check)) return {};
  const allOf: Json[] = [];
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(check)) {
    const condition = expressionOf(key)?.replaceAll(" ", "");
    if (condition === "$error!=null" || condition === "$error==null")
      allOf.push({ cel: `result.exitCode ${(condition === "$error!=null") === value ? "!=" : "=="} 0` });
    else if (condition === "$error" && value === null) allOf.push({ cel: "result.exitCode == 0" });
    else rest[key] = value;
  }
  const { cel } = convertAssertion(rest, { variables, root: undefined });
  allOf.push(...cel.map((each) => ({ cel: each })));
  if (allOf.length === 0) throw new ConversionError("check: must have at least one check");
  return { expectations: { allOf } };
}
