import { type KeelsonProgram, keelsonContainer } from "../programs/keelson-program.ts";
import { programContainer, type ProgramPodOptions } from "../programs/program-pod.ts";
import { type ToolPlan, toolVariable } from "./tool-plan.ts";

/** The Pod of a tool. Only tools that use the API server have credentials. */
export function toolPod(
  plan: ToolPlan,
  metadata: { readonly name: string; readonly namespace: string },
  program: KeelsonProgram,
  { serviceAccountName, activeDeadlineSeconds }: Pick<ProgramPodOptions, "serviceAccountName" | "activeDeadlineSeconds">,
): Record<string, unknown> {
  const hasCredentials = serviceAccountName !== undefined && plan.action.kind !== "http";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata,
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds,
      terminationGracePeriodSeconds: 5,
      ...(hasCredentials ? { serviceAccountName } : { automountServiceAccountToken: false }),
      containers: [keelsonContainer(programContainer, program, { variable: toolVariable, value: plan })],
    },
  };
}
