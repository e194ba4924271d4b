import type { DeepReadonly } from "@keelson/api-machinery";
import type { TestStep } from "../api/test-step.ts";
import { tailOf, truncation } from "../tools/output-tail.ts";
import { toolActionOf } from "../tools/tool-plan.ts";
import { escaped } from "./escaped.ts";

type Step = DeepReadonly<TestStep>;

/** Whether a step runs a script or a command, or a tool. */
export const hasProgram = (step: Step): boolean =>
  step.script !== undefined || step.command !== undefined || toolActionOf(step) !== undefined;

/** Name of the only container. */
export const programContainer = "main";

/** What identifies the run of a program. */
export interface ProgramRun {
  readonly test: string;
  readonly uid: string;
  readonly round: number;
  readonly index: number;
  readonly attempt: number;
}

/** Name of the Pod of a program. It is the same for a repeated attempt to create it. */
export function podNameOf({ test, uid, round, index, attempt }: ProgramRun): string {
  return `${test.slice(0, 40)}-${uid.slice(0, 5)}-${round}-${index}-${attempt}`;
}

/** Environment variable with the namespace of the round. */
const namespaceVariable = "NAMESPACE";

/** Separates standard output from standard error in the log. */
const marker = (podName: string): string => `--- standard error of ${podName}`;

/** Runs a script with its standard error in a file, and appends the file to the log. */
const wrapper = `err=$(mktemp) || exit 125
/bin/sh -c "$KEELSON_SCRIPT" 2>"$err"
code=$?
printf '\\n%s\\n' "$KEELSON_MARKER"
cat "$err"
exit $code`;

/** Where the Pod of a program runs, and with whose permissions. */
export interface ProgramPodOptions {
  readonly name: string;
  readonly namespace: string;
  /** Absent: the program has no credentials for the API server. */
  readonly serviceAccountName?: string | undefined;
  /** Seconds after which the program is killed: no attempt may run alongside the next one. */
  readonly activeDeadlineSeconds: number;
  /** Namespace of the round, which the program reads from `NAMESPACE`. */
  readonly roundNamespace: string;
}

/** The Pod of a script or a command. */
export function programPod(step: Step, options: ProgramPodOptions): Record<string, unknown> {
  const { name, namespace, serviceAccountName, activeDeadlineSeconds, roundNamespace } = options;
  const { image = "busybox", env: own = [] } = step.script ?? step.command ?? {};
  const env = own.some((each) => each.name === namespaceVariable)
    ? own
    : [{ name: namespaceVariable, value: roundNamespace }, ...own];
  const program =
    step.script === undefined
      ? { command: [...(step.command?.command ?? [])], env: [...env] }
      : {
          command: ["/bin/sh", "-c", wrapper],
          env: [
            ...env,
            { name: "KEELSON_SCRIPT", value: escaped(step.script.content) },
            { name: "KEELSON_MARKER", value: marker(name) },
          ],
        };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace },
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds,
      ...(serviceAccountName === undefined ? { automountServiceAccountToken: false } : { serviceAccountName }),
      containers: [{ name: programContainer, image, ...program }],
    },
  };
}

/** Splits the log of a program. */
export function parseOutput(
  log: string,
  podName: string,
): { readonly stdout: string; readonly stderr: string; readonly truncated?: true } {
  const separator = `\n${marker(podName)}\n`;
  const at = log.lastIndexOf(separator);
  const stdout = Buffer.from(at < 0 ? log : log.slice(0, at));
  const stderr = at < 0 ? "" : tailOf(Buffer.from(log.slice(at + separator.length)));
  return { stdout: tailOf(stdout), stderr, ...truncation(stdout.length) };
}
