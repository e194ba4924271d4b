import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus } from "../api/integration-test.ts";
import { type CelVariables, evaluateCel } from "../assertions/cel-assertion.ts";

/** Variables of the expressions in a test, in addition to `object` and `objects` in its checks. */
export const testVariableNames = ["test", "params", "bindings", "outputs"] as const;

type Spec = DeepReadonly<IntegrationTestSpec>;
type Status = DeepReadonly<IntegrationTestStatus>;

/** The variables of the current round. A binding that cannot be evaluated is absent. */
export function testVariables(
  spec: Spec,
  status: Status,
  test: { readonly name: string; readonly namespace: string },
): CelVariables {
  const round = status.currentRound ?? 1;
  const scenario = scenarioOf(spec, round);
  const variables: Record<(typeof testVariableNames)[number], unknown> = {
    test: { ...test, round, scenario: scenario?.name ?? "", namespace: status.namespace ?? test.namespace },
    params: parametersOf(spec, scenario?.values ?? {}),
    outputs: status.outputs ?? {},
    bindings: {},
  };
  for (const { name, cel } of spec.bindings ?? []) {
    const result = evaluateCel(cel, variables);
    if (result.kind === "value") variables.bindings = { ...(variables.bindings as object), [name]: result.value };
  }
  return variables;
}

/** The scenario of a round. */
export function scenarioOf({ scenarios = [] }: Spec, round: number) {
  return scenarios.length === 0 ? undefined : scenarios[(round - 1) % scenarios.length];
}

function parametersOf(
  { parameters = [], parameterValues = {} }: Spec,
  scenario: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const values: Readonly<Record<string, unknown>> = { ...parameterValues, ...scenario };
  return Object.fromEntries(
    parameters.flatMap(({ name, default: fallback }) => {
      const value = Object.hasOwn(values, name) ? values[name] : fallback;
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

/** Errors of the parameters, each starting with the path of its field. */
export function validateParameters({ parameters = [], parameterValues = {}, scenarios = [] }: Spec): readonly string[] {
  const errors: string[] = [];
  const sources = scenarios.length === 0 ? [{ path: "spec.parameterValues", values: parameterValues }] : [];
  for (const [index, { values = {} }] of scenarios.entries()) {
    sources.push({ path: `spec.scenarios[${index}].values`, values: { ...parameterValues, ...values } });
  }
  const names = new Set(parameters.map(({ name }) => name));
  for (const { path, values } of sources) {
    for (const name of Object.keys(values)) if (!names.has(name)) errors.push(`${path}.${name}: unknown parameter`);
    for (const { name, type = "string", default: fallback } of parameters) {
      const value = Object.hasOwn(values, name) ? (values as Readonly<Record<string, unknown>>)[name] : fallback;
      if (value === undefined) errors.push(`${path}.${name}: required`);
      else if (!hasType(value, type)) errors.push(`${path}.${name}: must be of type ${type}`);
    }
  }
  return errors;
}

function hasType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isSafeInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}
