import { isNotFound } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { StepStatus } from "../api/step-status.ts";
import { readLogTail } from "./read-log-tail.ts";
import { parseOutput, programContainer } from "./program-pod.ts";

/** Maximum size of a log that is read. */
const maxLogBytes = 65_536;

/** How the program of a step ended; undefined if its Pod does not exist any more. */
export async function collectResult(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<StepStatus["result"]> {
  try {
    const pod = await client.get(Pod, key, { signal });
    const state = pod.status?.containerStatuses?.find(({ name }) => name === programContainer)?.state;
    const log = await readLogTail(client, key, { container: programContainer, maxBytes: maxLogBytes, signal });
    return { exitCode: state?.terminated?.exitCode ?? 255, ...parseOutput(log, key.name) };
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Deletes the Pod of a program whose result has been stored. If that fails, the Pod is deleted with the test. */
export async function deleteProgramPod(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  await client.delete(Pod, key, { propagationPolicy: "Background", signal }).catch(() => {});
}
