import { isNotFound } from "@keelson/api-machinery";
import { Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";

/** Decides what a Pod does when it starts. Default: it runs and is ready. */
export type PodFate = (pod: { readonly metadata: { readonly name?: string } }) => "run" | "succeed" | "fail" | "wait";

/** A node that starts no programs: it sets the status of Pods bound to it and deletes terminating ones. */
export interface FakeNode extends AsyncDisposable {
  readonly name: string;
  stop(): Promise<void>;
}

/** Starts a node with 4 cores and 8 Gi of memory. */
export async function startFakeNode(
  client: Client,
  { name = "node", fate = () => "run" }: { readonly name?: string; readonly fate?: PodFate } = {},
): Promise<FakeNode> {
  const amounts = { cpu: "4", memory: "8Gi", pods: "110" };
  const now = (): string => formatTime(Date.now());
  await client.create(Node, { metadata: { name, labels: { "kubernetes.io/hostname": name } } });
  const ready = { type: "Ready", status: "True" as const, reason: "KubeletReady", message: "", lastTransitionTime: now() };
  const status = { capacity: amounts, allocatable: amounts, conditions: [ready] };
  await client.patch(Node, { name }, { type: "merge", body: { status } }, { subresource: "status" });
  const watch = await client.watch(Pod, { resourceVersion: "0" });
  let addresses = 1;
  const run = async (): Promise<void> => {
    for await (const { type, object: pod } of watch) {
      if (type === "DELETED" || pod.spec?.nodeName !== name) continue;
      const key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
      try {
        if (pod.metadata.deletionTimestamp !== undefined) {
          await client.delete(Pod, key, { gracePeriodSeconds: 0 });
        } else if (pod.status?.podIP === undefined) {
          const wanted = fate(pod);
          if (wanted === "wait") continue;
          addresses++;
          const body = { status: statusOf(wanted, `127.1.0.${addresses}`, now()) };
          await client.patch(Pod, key, { type: "merge", body }, { subresource: "status" });
        }
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
  };
  const running = run();
  const stop = async (): Promise<void> => {
    watch.close();
    await running;
  };
  return { name, stop, [Symbol.asyncDispose]: stop };
}

function statusOf(fate: "run" | "succeed" | "fail", podIP: string, time: string): PodObject["status"] {
  const phase = fate === "run" ? "Running" : fate === "succeed" ? "Succeeded" : "Failed";
  const ready = { type: "Ready", status: fate === "run" ? ("True" as const) : ("False" as const), lastTransitionTime: time };
  return {
    phase,
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: time }, ready],
  };
}
