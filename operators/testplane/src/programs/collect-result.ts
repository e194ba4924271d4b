import { isNotFound } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { parseReport, type ToolReport } from "../tools/tool-report.ts";
import { readLogTail } from "./read-log-tail.ts";
import { parseOutput, programContainer } from "./program-pod.ts";

/** Maximum size of a log that is read. As JSON, a byte may become six. */
const maxLogBytes = 262_144;

/** How the program of a step ended; undefined if its Pod no longer exists. `isTool`: it ends with a report. */
export async function collectResult(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
  { isTool, signal }: { readonly isTool: boolean; readonly signal: AbortSignal },
): Promise<ToolReport | undefined> {
  try {
    const pod = await client.get(Pod, key, { signal });
    const state = pod.status?.containerStatuses?.find(({ name }) => name === programContainer)?.state;
    const log = await readLogTail(client, key, { container: programContainer, maxBytes: maxLogBytes, signal });
    const exitCode = state?.terminated?.exitCode ?? 255;
    if (!isTool) return { kind: "result", result: { exitCode, ...parseOutput(log, key.name) } };
    const end = log.trimEnd().split("\n").at(-1) ?? "";
    const message = `Pod ${key.name} ended with exit code ${exitCode} without a report${end === "" ? "" : `: ${end.slice(0, 512)}`}`;
    return parseReport(log) ?? { kind: "error", reason: "CollectFailed", message };
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Deletes the Pod of a program, which ends the program if it still runs. */
export async function deleteProgramPod(
  client: Client,
  key: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.delete(Pod, key, { propagationPolicy: "Background", signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
