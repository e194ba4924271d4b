import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { listAt, textAt } from "../../registry/object-fields.ts";
import { storageKey } from "../../storage/store.ts";
import { type Call, keyOf } from "../call.ts";
import { badRequest, invalid, notFound } from "../errors.ts";
import type { RawOutcome } from "../outcome.ts";

/** Answers `pods/log` where no node runs Pods: what is wrong with the request is told, and else there is no log yet. */
export async function emptyLog(call: Call): Promise<RawOutcome> {
  const { info, resource, store, query } = call;
  const causes = optionCauses(query);
  if (causes.length > 0) throw invalid({ group: "", kind: "PodLogOptions" }, info.name, causes);
  const pod = store.get(keyOf(call))?.object;
  if (pod === undefined) throw notFound(resource, info.name);
  requireContainer(info.name, pod, query["container"] ?? "");
  const node = textAt(pod, "spec", "nodeName");
  const nodes = { group: "", plural: "nodes" };
  if (node !== "" && store.get(storageKey(nodes, "", node)) === undefined) throw notFound(nodes, node);
  return { kind: "raw", status: 200, headers: { "content-type": "text/plain" }, body: "" };
}

function requireContainer(name: string, pod: unknown, container: string): void {
  const fields = ["initContainers", "containers", "ephemeralContainers"];
  const names = (field: string): string[] => listAt(pod, "spec", field).map((one) => textAt(one, "name"));
  if (container !== "") {
    if (fields.some((field) => names(field).includes(container))) return;
    throw badRequest(`container ${container} is not valid for pod ${name}`);
  }
  const choice = names("containers");
  if (choice.length === 1) return;
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${choice.join(" ")}]`);
}

function optionCauses(query: Call["query"]): StatusCause[] {
  const causes: StatusCause[] = [];
  const number = (name: string, least: number): void => {
    const text = query[name];
    if (text === undefined || text === "") return;
    if (!/^-?\d{1,15}$/.test(text)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    const detail = least === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    if (Number(text) < least) causes.push(invalidCause(name, Number(text), detail));
  };
  number("tailLines", 0);
  number("limitBytes", 1);
  if (query["sinceSeconds"] && query["sinceTime"]) {
    causes.push(forbiddenCause("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
  } else number("sinceSeconds", 1);
  return causes;
}
