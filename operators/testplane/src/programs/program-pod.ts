import type { DeepReadonly } from "@keelson/api-machinery";
import type { TestStep } from "../api/test-step.ts";

type Step = DeepReadonly<TestStep>;

/** Whether a step runs a script or a command. */
export const hasProgram = ({ script, command }: Step): boolean => script !== undefined || command !== undefined;

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

/** Separates standard output from standard error in the log. */
const marker = (podName: string): string => `--- standard error of ${podName}`;

/** Runs a script with its standard error in a file, and appends the file to the log. */
const wrapper = `err=$(mktemp) || exit 125
/bin/sh -c "$KEELSON_SCRIPT" 2>"$err"
code=$?
printf '\\n%s\\n' "$KEELSON_MARKER"
cat "$err"
exit $code`;

/** The Pod of a program. Without a ServiceAccount it has no credentials for the API server. */
export function programPod(step: Step, name: string, serviceAccountName: string | undefined): Record<string, unknown> {
  const { image = "busybox", env = [] } = step.script ?? step.command ?? {};
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
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      ...(serviceAccountName === undefined ? { automountServiceAccountToken: false } : { serviceAccountName }),
      containers: [{ name: programContainer, image, ...program }],
    },
  };
}

/** The kubelet expands `$(NAME)` in values, and reads `$$` as `$`. */
export const escaped = (text: string): string => text.replaceAll("$(", "$$$$(");

/** Maximum size of each output in the status. */
const maxOutputBytes = 16_384;

/** Splits the log of a program. */
export function parseOutput(log: string, podName: string): { readonly stdout: string; readonly stderr: string } {
  const separator = `\n${marker(podName)}\n`;
  const at = log.lastIndexOf(separator);
  if (at < 0) return { stdout: tailOf(log), stderr: "" };
  return { stdout: tailOf(log.slice(0, at)), stderr: tailOf(log.slice(at + separator.length)) };
}

/** The last bytes of a text. A character that is cut is dropped. */
function tailOf(text: string): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= maxOutputBytes) return text;
  return bytes
    .subarray(-maxOutputBytes)
    .toString("utf8")
    .replace(/^\ufffd+/, "");
}
