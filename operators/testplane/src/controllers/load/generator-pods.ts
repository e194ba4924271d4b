import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadGenerator } from "../../api/load-generator.ts";
import { planVariable } from "../../generator/load-plan.ts";
import { planLoad } from "../../generator/plan-load.ts";
import { validatePlanSize, validateUrl } from "../../manifests/validate-load-generator.ts";
import { escaped } from "../../programs/program-pod.ts";
import { render, type Rendered } from "../../templating/template.ts";

/** Where the program of the load generator is: in an image, or in this installation. */
export interface GeneratorProgram {
  readonly command: readonly string[];
  /** Absent: Pods are processes of this machine. */
  readonly image?: string;
}

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
  program: GeneratorProgram,
): Rendered<readonly Readonly<Record<string, unknown>>[]> {
  const rendered = render(generator, { values });
  if (rendered.kind === "error") return rendered;
  const urlError = validateUrl(String(rendered.value.url));
  if (urlError !== undefined) return { kind: "error", message: `spec.workload.generator.url: ${urlError}` };
  const texts = textsOf(rendered.value);
  const sizeError = validatePlanSize(texts, "spec.workload.generator");
  if (sizeError !== undefined) return { kind: "error", message: sizeError };
  const names = generatorPodNames(generator, test);
  const pods = planLoad(texts).map((plan, worker) => podOf(names[worker] ?? "", JSON.stringify(plan), program));
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

function podOf(name: string, plan: string, { command, image }: GeneratorProgram): Readonly<Record<string, unknown>> {
  const confined = {
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
  };
  const container = {
    name: generatorContainer,
    image: image ?? "keelson",
    command: [...command],
    env: [{ name: planVariable, value: escaped(plan) }],
    ...(image === undefined ? {} : confined),
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 5,
      containers: [container],
    },
  };
}
