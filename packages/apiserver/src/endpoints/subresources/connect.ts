import type { JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { GroupVersionKind } from "../../admission/admission.ts";
import { admitUnstored } from "../admission-request.ts";
import type { Call } from "../call.ts";
import { isTrue } from "../request-info.ts";

/** The fields of connection options by type. Parameters may occur more than once. */
interface OptionFields {
  readonly kind: string;
  readonly flags?: readonly string[];
  readonly texts?: readonly string[];
  readonly lists?: readonly string[];
}

const streams = { flags: ["stdin", "stdout", "stderr", "tty"], texts: ["container"] };

/** Options by `<plural>/<subresource>` (core/v1). */
const connections: Readonly<Record<string, OptionFields>> = {
  "pods/exec": { kind: "PodExecOptions", ...streams, lists: ["command"] },
  "pods/attach": { kind: "PodAttachOptions", ...streams },
  "pods/portforward": { kind: "PodPortForwardOptions", lists: ["ports"] },
  "pods/proxy": { kind: "PodProxyOptions", texts: ["path"] },
  "services/proxy": { kind: "ServiceProxyOptions", texts: ["path"] },
  "nodes/proxy": { kind: "NodeProxyOptions", texts: ["path"] },
};

/** Admits a connection (operation `CONNECT`): exec, attach, port-forward and proxies. Does nothing for other subresources. */
export async function admitConnection(call: Call): Promise<void> {
  const { info } = call;
  const id = `${info.resource}/${info.subresource}`;
  const fields = info.group === "" && Object.hasOwn(connections, id) ? connections[id] : undefined;
  if (fields === undefined) return;
  const kind: GroupVersionKind = { group: "", version: "v1", kind: fields.kind };
  const object = connectionOptions(call, fields);
  await admitUnstored(call, { operation: "CONNECT", kind, name: info.name, object, isDryRun: false, options: undefined });
}

function connectionOptions(
  { query, info }: Call,
  { kind, flags = [], texts = [], lists = [] }: OptionFields,
): KubernetesObject {
  const options: JsonObject = { kind, apiVersion: "v1" };
  for (const name of flags) if (isTrue(query[name])) options[name] = true;
  for (const name of texts) if (query[name]) options[name] = query[name];
  for (const name of lists) {
    const values = query[name];
    if (values !== undefined) options[name] = name === "ports" ? values.split(",").map(Number) : [values];
  }
  if (info.rest !== "" && kind.endsWith("ProxyOptions")) options["path"] = info.rest;
  return options as unknown as KubernetesObject;
}
