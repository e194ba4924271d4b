import { statusError } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { ContainerHandle } from "../container/container-handle.ts";
import type { Kubelet } from "../kubelet.ts";
import type { UpgradeAnswer } from "../streaming/upgrade.ts";
import { logHandshake, sendMessages } from "./log-socket.ts";
import { type LogOptions, readLog } from "./log-reader.ts";
import { type PodView, plannedContainers } from "../pod/pod-view.ts";

/** The part of a subresource call that the Pod handlers use. The API server's `Call` is compatible. */
export interface PodCall {
  readonly info: { readonly namespace: string; readonly name: string };
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly request: {
    readonly method: string;
    readonly user?: { readonly username: string; readonly groups: readonly string[] };
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal | undefined;
  };
}

/** A response that is sent unchanged. */
export interface RawAnswer {
  readonly kind: "raw";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Parses a query parameter as an integer of at least `min`. Throws an `Invalid` StatusError that names it. */
function numberOf(query: PodCall["query"], name: string, min: number): number | undefined {
  const text = query[name];
  if (text === undefined || text === "") return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < min) {
    throw statusError(
      "Invalid",
      `PodLogOptions.${name}: Invalid value: ${JSON.stringify(text)}: must be an integer greater than or equal to ${min}`,
    );
  }
  return value;
}

const isTrue = (text: string | undefined): boolean => text !== undefined && text !== "false" && text !== "0";

/** The container of a request: the requested one, or the only one. Throws a StatusError. */
export function chooseContainer(pod: PodView, requested: string | undefined): string {
  const names = plannedContainers(pod).map(({ container }) => container.name);
  const mains = pod.spec.containers.map(({ name }) => name);
  if (requested !== undefined && requested !== "") {
    if (names.includes(requested)) return requested;
    throw statusError("BadRequest", `container ${requested} is not valid for pod ${pod.metadata.name}`);
  }
  const [only] = mains;
  if (only !== undefined && mains.length === 1) return only;
  throw statusError(
    "BadRequest",
    `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${mains.join(" ")}]`,
  );
}

/** Serves `pods/log`. `findPod` throws NotFound for a missing Pod; `kubelet` is `undefined` while no node runs. */
export async function answerLog(
  call: PodCall,
  findPod: () => Promise<PodView>,
  kubelet: Kubelet | undefined,
  now: number,
): Promise<RawAnswer | UpgradeAnswer> {
  const { query } = call;
  const pod = await findPod();
  const name = chooseContainer(pod, query["container"]);
  const sinceSeconds = numberOf(query, "sinceSeconds", 1);
  const sinceTime = query["sinceTime"] === undefined ? undefined : parseTime(query["sinceTime"]);
  if (query["sinceTime"] !== undefined && sinceTime === undefined) {
    throw statusError(
      "BadRequest",
      `sinceTime: Invalid value: ${JSON.stringify(query["sinceTime"])}: must be an RFC 3339 time`,
    );
  }
  const since = sinceSeconds === undefined ? sinceTime : now - sinceSeconds * 1000;
  const tailLines = numberOf(query, "tailLines", 0);
  const limitBytes = numberOf(query, "limitBytes", 1);
  const options: LogOptions = {
    follow: isTrue(query["follow"]),
    timestamps: isTrue(query["timestamps"]),
    ...(tailLines === undefined ? {} : { tailLines }),
    ...(limitBytes === undefined ? {} : { limitBytes }),
    ...(since === undefined ? {} : { since }),
    signal: call.request.signal,
  };
  const { namespace = "", name: podName = "" } = pod.metadata;
  const found = kubelet?.container(namespace, podName, name);
  if (pod.spec.nodeName === undefined || pod.spec.nodeName === "") {
    throw statusError("BadRequest", `pod ${podName} does not have a host assigned`);
  }
  if (isTrue(query["previous"])) {
    if (found?.previous === undefined) {
      throw statusError(
        "BadRequest",
        `previous terminated container ${JSON.stringify(name)} in pod ${JSON.stringify(podName)} not found`,
      );
    }
    return sendLog(call, { ...options, follow: false }, found.previous, found);
  }
  if (found?.program === undefined) {
    const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = pod.status ?? {};
    const reason = [...containerStatuses, ...initContainerStatuses, ...ephemeralContainerStatuses].find(
      (status) => status.name === name,
    )?.state?.waiting?.reason;
    throw statusError(
      "BadRequest",
      `container ${JSON.stringify(name)} in pod ${JSON.stringify(podName)} is waiting to start: ${reason ?? "ContainerCreating"}`,
    );
  }
  return sendLog(call, options, found.program, found);
}

/** Sends a log as the body of the response, or as messages of a WebSocket if the client requests one. */
function sendLog(
  { request }: PodCall,
  options: LogOptions,
  program: Program,
  found: Pick<ContainerHandle, "times">,
): RawAnswer | UpgradeAnswer {
  const handshake = logHandshake(request.headers ?? {});
  if (handshake === undefined) {
    const body = readLog(program, options, found.times(program));
    return { kind: "raw", status: 200, headers: { "content-type": "text/plain" }, body };
  }
  return {
    kind: "upgrade",
    connect(upgrade) {
      upgrade.onStatus?.(101);
      void sendMessages(upgrade, handshake, (signal) => readLog(program, { ...options, signal }, found.times(program)));
    },
  };
}
