import { statusError } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { Kubelet } from "../kubelet.ts";
import { type LogOptions, readLog } from "./log-reader.ts";
import { type PodView, plannedContainers } from "../pod/pod-view.ts";

/** What of a call to a subresource the handlers here need; the API server's `Call` is one. */
export interface PodCall {
  readonly info: { readonly namespace: string; readonly name: string };
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly request: {
    readonly method: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal | undefined;
  };
}

/** An answer that is sent as it is. */
export interface RawAnswer {
  readonly kind: "raw";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** The parameter as a whole number not below `least`. Throws a `BadRequest` that names it. */
function numberOf(query: PodCall["query"], name: string, least: number): number | undefined {
  const text = query[name];
  if (text === undefined || text === "") return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) {
    throw statusError(
      "Invalid",
      `PodLogOptions.${name}: Invalid value: ${JSON.stringify(text)}: must be a whole number of ${least} or more`,
    );
  }
  return value;
}

const isTrue = (text: string | undefined): boolean => text !== undefined && text !== "false" && text !== "0";

/** The container that a request means: the one that it names, or the only one. Throws a StatusError. */
export function chooseContainer(pod: PodView, asked: string | undefined): string {
  const names = plannedContainers(pod).map(({ container }) => container.name);
  const mains = pod.spec.containers.map(({ name }) => name);
  if (asked !== undefined && asked !== "") {
    if (names.includes(asked)) return asked;
    throw statusError("BadRequest", `container ${asked} is not valid for pod ${pod.metadata.name}`);
  }
  const [only] = mains;
  if (only !== undefined && mains.length === 1) return only;
  throw statusError(
    "BadRequest",
    `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${mains.join(" ")}]`,
  );
}

/** Answers `pods/log`. `findPod` reads the Pod and throws NotFound; `kubelet` is `undefined` while no node runs. */
export async function answerLog(
  call: PodCall,
  findPod: () => Promise<PodView>,
  kubelet: Kubelet | undefined,
  now: number,
): Promise<RawAnswer> {
  const { query } = call;
  const pod = await findPod();
  const name = chooseContainer(pod, query["container"]);
  const sinceSeconds = numberOf(query, "sinceSeconds", 1);
  const sinceTime = query["sinceTime"] === undefined ? undefined : parseTime(query["sinceTime"]);
  if (query["sinceTime"] !== undefined && sinceTime === undefined) {
    throw statusError("BadRequest", `sinceTime: ${JSON.stringify(query["sinceTime"])} is no time in RFC 3339`);
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
    return raw(readLog(found.previous, { ...options, follow: false }, found.times(found.previous)));
  }
  if (found?.program === undefined) {
    const reason = [...(pod.status?.containerStatuses ?? []), ...(pod.status?.initContainerStatuses ?? [])].find(
      (status) => status.name === name,
    )?.state?.waiting?.reason;
    throw statusError(
      "BadRequest",
      `container ${JSON.stringify(name)} in pod ${JSON.stringify(podName)} is waiting to start: ${reason ?? "ContainerCreating"}`,
    );
  }
  return raw(readLog(found.program, options, found.times(found.program)));
}

function raw(body: AsyncIterable<Uint8Array>): RawAnswer {
  return { kind: "raw", status: 200, headers: { "content-type": "text/plain" }, body };
}
