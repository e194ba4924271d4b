import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadGenerator } from "../../api/load-generator.ts";
import { type LoadPlan, planVariable } from "../../generator/load-plan.ts";
import { planLoad } from "../../generator/plan-load.ts";
import { validatePlanSize, validateUrl } from "../../manifests/validate-load-generator.ts";
import { type KeelsonProgram, keelsonContainer } from "../../programs/keelson-program.ts";
import { render, type Rendered } from "../../templating/template.ts";

/** Name of the only container of a generator's Pod. */
export const generatorContainer = "generator";

/** Names of the Pods of a generator. */
export function generatorPodNames({ workers = 1 }: DeepReadonly<LoadGenerator>, test: string): readonly string[] {
  return Array.from({ length: workers }, (_, worker) => `${test.slice(0, 200)}-load-${worker}`);
}

/** The Pods of a generator, with the values of the target. */
export function generatorPods(
  generator: DeepReadonly<LoadGenerator>,
  test: string,
  values: Readonly<Record<string, string>>,
  program: KeelsonProgram,
): Rendered<readonly Readonly<Record<string, unknown>>[]> {
  const rendered = render(generator, { values });
  if (rendered.kind === "error") return rendered;
  const urlError = validateUrl(String(rendered.value.url));
  if (urlError !== undefined) return { kind: "error", message: `spec.workload.generator.url: ${urlError}` };
  const texts = textsOf(rendered.value);
  const sizeError = validatePlanSize(texts, "spec.workload.generator");
  if (sizeError !== undefined) return { kind: "error", message: sizeError };
  const names = generatorPodNames(generator, test);
  const pods = planLoad(texts).map((plan, worker) => podOf(names[worker] ?? "", plan, program));
  return { kind: "rendered", value: pods };
}

/** A text that is one expression may have become a number. */
const textsOf = (generator: DeepReadonly<LoadGenerator>): DeepReadonly<LoadGenerator> => ({
  ...generator,
  url: String(generator.url),
  ...(generator.body === undefined ? {} : { body: String(generator.body) }),
  ...(generator.headers === undefined
    ? {}
    : { headers: generator.headers.map(({ name, value }) => ({ name: String(name), value: String(value) })) }),
});

function podOf(name: string, plan: LoadPlan, program: KeelsonProgram): Readonly<Record<string, unknown>> {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 5,
      containers: [keelsonContainer(generatorContainer, program, { variable: planVariable, value: plan })],
    },
  };
}
