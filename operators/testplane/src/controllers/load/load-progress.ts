import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { objectsAt, stringAt } from "../../functions/read.ts";
import { readLogTail } from "../../programs/read-log-tail.ts";
import type { ActionContext } from "../resource-actions.ts";
import { iso } from "../test-status.ts";
import { workloadPods } from "./workload-output.ts";

/** Maximum Pods whose output is read while the load runs. */
const maxPods = 20;
const maxLineBytes = 4_096;

/** Reads the end of a running workload's output. What cannot be read is left out: progress does not affect the verdict. */
export async function readProgress(
  spec: DeepReadonly<LoadTestSpec>,
  context: ActionContext,
  now: number,
): Promise<Pick<LoadTestStatus, "progress">> {
  const { client, signal } = context;
  const lines: string[] = [];
  for (const pod of (await workloadPods(spec, context).catch(() => [])).slice(0, maxPods)) {
    const [container] = objectsAt(pod, "status", "containerStatuses");
    if (container === undefined) continue;
    const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    const options = { container: stringAt(container, "name"), maxBytes: maxLineBytes, tailLines: 1, signal };
    const text = await readLogTail(client, key, options).catch(() => "");
    if (text.trim() !== "") lines.push(text.trim());
  }
  const line = lines.at(-1);
  return { progress: { observedAt: iso(now), ...(line === undefined ? {} : { line: truncate(line, 256) }) } };
}
