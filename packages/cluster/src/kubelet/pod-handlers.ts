import { isStatusError, type Status, statusError } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { Kubelet } from "./kubelet.ts";
import { answerLog, type PodCall, type RawAnswer } from "./logs/pod-log.ts";
import type { PodView } from "./pod/pod-view.ts";
import { CommandStarts } from "./streaming/command-starts.ts";
import { answerExec, type ExecOptions } from "./streaming/pod-exec.ts";
import { answerPortForward } from "./streaming/port-forward.ts";
import type { UpgradeAnswer } from "./streaming/upgrade.ts";

/** Handles a subresource of Pods. Compatible with the API server's `SubresourceHandler`. */
export type PodHandler = (
  call: PodCall,
) => Promise<RawAnswer | UpgradeAnswer | { readonly kind: "status"; readonly status: Status }>;

/** Handlers by subresource: `/pods/log`, `/pods/exec`, `/pods/attach`, `/pods/portforward`. */
export type PodHandlers = Readonly<Record<string, PodHandler>>;

/** Dependencies of {@link podHandlers}. Client and kubelet become available after the API server has started. */
export interface PodHandlersOptions {
  readonly client: () => Client | undefined;
  readonly kubelet: () => Kubelet | undefined;
  readonly now: () => number;
  /**
   * Whether the sender may run commands in containers that are bare processes of the node (see `podIsolation`). Default: everyone who
   * may exec or attach.
   */
  readonly mayUseProcess?: (call: PodCall) => boolean;
}

/** Handlers for the Pod subresources that the node serves, keyed as in `ApiServerOptions.subresources`. */
export function podHandlers(options: PodHandlersOptions): PodHandlers {
  const mayUseProcess = (call: PodCall): boolean => options.mayUseProcess?.(call) ?? true;
  const findPod = async (call: PodCall): Promise<PodView> => {
    const client = options.client();
    if (client === undefined) throw statusError("ServiceUnavailable", "the server is starting");
    return client.get(Pod, { namespace: call.info.namespace, name: call.info.name });
  };
  const contained =
    (answer: (call: PodCall) => Promise<RawAnswer | UpgradeAnswer>): PodHandler =>
    async (call) => {
      try {
        return await answer(call);
      } catch (error) {
        if (isStatusError(error)) return { kind: "status", status: error.status };
        throw error;
      }
    };
  const starts = new CommandStarts();
  const execOptions = (call: PodCall, kind: ExecOptions["kind"]): ExecOptions => ({
    kind,
    findPod: () => findPod(call),
    kubelet: options.kubelet(),
    mayUseProcess: mayUseProcess(call),
    starts,
  });
  return {
    "/pods/exec": contained((call) => answerExec(call, execOptions(call, "exec"))),
    "/pods/attach": contained((call) => answerExec(call, execOptions(call, "attach"))),
    "/pods/portforward": contained((call) => answerPortForward(call, () => findPod(call), options.kubelet())),
    "/pods/log": contained(async (call) => {
      if (call.request.method !== "GET") throw statusError("MethodNotAllowed", "pods/log supports GET only");
      return answerLog(call, () => findPod(call), options.kubelet(), options.now());
    }),
  };
}
