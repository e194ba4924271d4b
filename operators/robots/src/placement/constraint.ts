import type { DeepReadonly } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import type { Constraint } from "../api/constraint.ts";
import type { RobotDevice } from "../api/device.ts";
import type { Robot } from "../api/robot.ts";
import { attributes } from "./attributes.ts";
import { partsOf } from "./device-name.ts";
import { satisfiesVersion } from "./version-constraint.ts";

/** Why a constraint does not hold for a robot, or for one of its devices; undefined if it holds. */
export function violationOf(
  constraint: DeepReadonly<Constraint>,
  robot: DeepReadonly<Robot>,
  device?: DeepReadonly<RobotDevice>,
): string | undefined {
  const leftText = constraint.lTarget ?? constraint.ltarget ?? "";
  const rightText = constraint.rTarget ?? constraint.rtarget ?? "";
  const operand = constraint.operand ?? "=";
  const expression = `${leftText} ${operand} ${rightText}`;
  const left = interpolate(leftText, robot, device);
  const right = interpolate(rightText, robot, device);
  if (left.unknown !== undefined || right.unknown !== undefined) {
    // A robot without the attribute differs from every value of it.
    if (operand === "!=") return undefined;
    return `${expression} (the robot has no ${left.unknown ?? right.unknown})`;
  }
  const holds = compare(left.text, right.text, operand);
  return holds === true ? undefined : holds === false ? expression : `${expression} (${holds})`;
}

/** Why a constraint can hold for no robot; undefined if it is valid. */
export function constraintProblem(constraint: DeepReadonly<Constraint>): string | undefined {
  const left = constraint.lTarget ?? constraint.ltarget ?? "";
  const right = constraint.rTarget ?? constraint.rtarget ?? "";
  // A pattern with a reference depends on the robot.
  if (constraint.operand !== "regexp" || right.includes("${")) return undefined;
  const result = matchesPattern("", right);
  return typeof result === "string" ? `${left} regexp ${right}: ${result}` : undefined;
}

const maxPatternLength = 256;

/** Whether the comparison holds, or why it cannot be evaluated. */
function compare(left: string, right: string, operand: NonNullable<Constraint["operand"]>): boolean | string {
  switch (operand) {
    case "=":
      return left === right;
    case "!=":
      return left !== right;
    case ">":
      return order(left, right) > 0;
    case ">=":
      return order(left, right) >= 0;
    case "<":
      return order(left, right) < 0;
    case "<=":
      return order(left, right) <= 0;
    case "regexp":
      return matchesPattern(left, right);
    case "set_contains": {
      const present = new Set(elements(left));
      return elements(right).every((element) => present.has(element));
    }
    case "version":
      return satisfiesVersion(left, right) ?? "not comparable versions";
  }
}

/** Matches a pattern in RE2 syntax, as in the original, so that matching takes linear time. */
function matchesPattern(text: string, pattern: string): boolean | string {
  if (pattern.length > maxPatternLength) return `the regular expression is longer than ${maxPatternLength} characters`;
  try {
    return compilePattern(pattern).test(text);
  } catch (error) {
    if (error instanceof SyntaxError) return `the regular expression is invalid: ${error.message}`;
    throw error;
  }
}

const elements = (list: string): string[] => list.split(",").map((element) => element.trim());

/** Compares as numbers if both are numbers, otherwise by code unit. */
function order(left: string, right: string): number {
  const [a, b] = [Number(left), Number(right)];
  if (left.trim() !== "" && right.trim() !== "" && Number.isFinite(a) && Number.isFinite(b)) return a - b;
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Replaces references such as `${label.site}` by the robot's values. `unknown`: the first one that the robot lacks. */
export function interpolate(
  text: string,
  robot: DeepReadonly<Robot>,
  device?: DeepReadonly<RobotDevice>,
): { readonly text: string; readonly unknown?: string } {
  let unknown: string | undefined;
  const result = text.replace(reference, (_, name: string) => {
    const value = valueOf(name.trim(), robot, device);
    if (value === undefined) unknown ??= name;
    return value ?? "";
  });
  return unknown === undefined ? { text: result } : { text: result, unknown };
}

/** Why a text has a reference that no robot can have a value for; undefined if it has none. */
export function referenceProblem(text: string): string | undefined {
  let unknown: string | undefined;
  const rest = text.replace(reference, (match, name: string) => {
    if (!isReference(name.trim())) unknown ??= match;
    return "";
  });
  if (unknown !== undefined) return `unknown reference ${unknown}`;
  return rest.includes("${") ? "a reference must end with }" : undefined;
}

const reference = /\$\{([^}]*)\}/g;
const robotNames: readonly string[] = ["robot.id", "node.unique.name", "node.unique.id"];

function isReference(name: string): boolean {
  if (robotNames.includes(name)) return true;
  const dot = name.indexOf(".");
  const [kind, rest] = [name.slice(0, dot), name.slice(dot + 1)];
  return kind === "attr" ? Object.hasOwn(attributes, rest) : (kind === "label" || kind === "meta") && rest !== "";
}

function valueOf(name: string, robot: DeepReadonly<Robot>, device: DeepReadonly<RobotDevice> | undefined): string | undefined {
  if (device !== undefined && name.startsWith("device.")) return deviceValue(name.slice("device.".length), device);
  if (robotNames.includes(name)) return robot.spec.robotId;
  const dot = name.indexOf(".");
  const [kind, rest] = [name.slice(0, dot), name.slice(dot + 1)];
  if (kind === "attr" && Object.hasOwn(attributes, rest)) return attributes[rest]?.(robot.status?.deviceInfo)?.toString();
  const labels = robot.spec.labels;
  if ((kind === "label" || kind === "meta") && labels && Object.hasOwn(labels, rest)) return labels[rest];
  return undefined;
}

function deviceValue(name: string, { id, name: fullName, attributes = {} }: DeepReadonly<RobotDevice>): string | undefined {
  if (name === "id") return id;
  const attribute = name.startsWith("attr.") ? name.slice("attr.".length) : "";
  if (attribute !== "") return Object.hasOwn(attributes, attribute) ? attributes[attribute] : undefined;
  const parts: Readonly<Record<string, string | undefined>> = partsOf(fullName);
  return Object.hasOwn(parts, name) ? parts[name] : undefined;
}
