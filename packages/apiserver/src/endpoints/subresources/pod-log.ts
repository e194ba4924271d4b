import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";

import { storageKey } from "../../storage/store.ts";
import { type Call, keyOf } from "../call.ts";
import { badRequest, invalid, notFound } from "../errors.ts";
import type { RawOutcome } from "../outcome.ts";

/** Serves `pods/log` without a kubelet: validates the request and returns an empty log. */
export async function emptyLog(call: Call): Promise<RawOutcome> {
  const { info, resource, store, query } = call;
  const causes = optionCauses(query);
  if (causes.length > 0) throw invalid({ group: "", kind: "PodLogOptions" }, info.name, causes);
  const pod = store.get(keyOf(call))?.object as DeepReadonly<PodObject> | undefined;
  if (pod === undefined) throw notFound(resource, info.name);
  requireContainer(info.name, pod, query["container"] ?? "");
  const node = pod.spec?.nodeName ?? "";
  const nodes = { group: "", plural: "nodes" };
  if (node !== "" && store.get(storageKey(nodes, "", node)) === undefined) throw notFound(nodes, node);
  return { kind: "raw", status: 200, headers: { "content-type": "text/plain" }, body: "" };
}

function requireContainer(name: string, { spec }: DeepReadonly<PodObject>, container: string): void {
  const fields = ["initContainers", "containers", "ephemeralContainers"] as const;
  if (container !== "") {
    if (fields.some((field) => spec?.[field]?.some((candidate) => candidate.name === container))) return;
    throw badRequest(`container ${container} is not valid for pod ${name}`);
  }
  const choice = (spec?.containers ?? []).map((candidate) => candidate.name);
  if (choice.length === 1) return;
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${choice.join(" ")}]`);
}

function optionCauses(query: Call["query"]): StatusCause[] {
  const causes: StatusCause[] = [];
  const check = (name: string, min: number): void => {
    const text = query[name];
    if (text === undefined || text === "") return;
    if (!/^-?\d{1,15}$/.test(text)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    const detail = min === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    if (Number(text) < min) causes.push(invalidCause(name, Number(text), detail));
  };
  const { sinceTime } = query;
  if (sinceTime && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)$/.test(sinceTime)) {
    const layout = "2006-01-02T15:04:05Z07:00";
    throw badRequest(
      `parsing time ${JSON.stringify(sinceTime)} as "${layout}": cannot parse ${JSON.stringify(sinceTime)} as "2006"`,
    );
  }
  check("tailLines", 0);
  check("limitBytes", 1);
  if (query["sinceSeconds"] && query["sinceTime"]) {
    causes.push(forbiddenCause("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
  } else check("sinceSeconds", 1);
  // Needs the feature gate PodLogsQuerySplitStreams, which is off in Kubernetes 1.35.
  if (query["stream"] !== undefined) causes.push(forbiddenCause("stream", "may not be specified"));
  return causes;
}
