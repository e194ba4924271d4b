import { jsonEquals } from "@keelson/api-machinery";
import type { Step } from "./corpus.ts";
import { MissingVariable, substitute, type Variables } from "./variables.ts";

/** The assertions of a step that do not hold, one line each. */
export function failedAssertions(step: Step, variables: Variables): string[] {
  return (step.assert ?? []).flatMap((assertion) =>
    Object.entries(assertion).flatMap(([kind, operands]) => {
      const list = Array.isArray(operands) ? operands : [operands];
      let values: unknown[];
      try {
        values = list.map((operand) => substitute(operand, variables));
      } catch (error) {
        if (kind === "absent" && error instanceof MissingVariable) return [];
        return [`assertion ${kind} of ${JSON.stringify(operands)}: ${String(error)}`];
      }
      if (isTrue(kind, values)) return [];
      return [`assertion ${kind} of ${JSON.stringify(operands)} does not hold: ${JSON.stringify(values).slice(0, 300)}`];
    }),
  );
}

function isTrue(kind: string, [a, b]: readonly unknown[]): boolean {
  switch (kind) {
    case "equal":
      return jsonEquals(a, b);
    case "notEqual":
      return !jsonEquals(a, b);
    case "rvLess":
      return Number(a) < Number(b);
    case "rvLessOrEqual":
      return Number(a) <= Number(b);
    case "exists":
      return a !== null;
    case "length":
      return (Array.isArray(a) || typeof a === "string" ? a.length : -1) === b;
    case "matches":
      return typeof a === "string" && new RegExp(String(b)).test(a);
    default:
      return false;
  }
}
