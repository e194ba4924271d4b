import { draft, isJsonObject, type JsonObject, type KubernetesObject, type Status } from "@keelson/api-machinery";
import { type Call, keyOf, timestamp } from "./call.ts";
import { deleteNamed } from "./delete.ts";
import { badRequest, conflict, notFound } from "./errors.ts";
import type { Outcome } from "./outcome.ts";
import { commitUpdate } from "./update.ts";
import { deleteOptions, writeOptions } from "./write-options.ts";

/** Answers a subresource that is no view of its object. The object need not exist. */
export type SubresourceHandler = (call: Call) => Promise<Outcome>;

function success(code: number): Status {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code };
}

/** Answers `pods/binding`: gives a Pod its node, once. */
export async function bindPod(call: Call): Promise<Outcome> {
  const { request, info, resource, clock } = call;
  const options = writeOptions(request, "CreateOptions");
  const target = isJsonObject(request.body) ? request.body["target"] : undefined;
  const node = isJsonObject(target) ? target["name"] : undefined;
  if (typeof node !== "string" || node === "") throw badRequest("target.name of a Binding must name a node");
  if (call.store.get(keyOf(call)) === undefined) throw notFound(resource, info.name);
  await commitUpdate(call, {
    options,
    isUidChecked: false,
    attempts: Number.POSITIVE_INFINITY,
    subresource: "binding",
    produce(live) {
      const next = draft(live) as KubernetesObject & { spec?: JsonObject; status?: JsonObject };
      const before = next.spec?.["nodeName"];
      const subject = { group: "", plural: "pods/binding" };
      if (next.metadata.deletionTimestamp !== undefined) {
        throw conflict(subject, info.name, `pod ${info.name} is being deleted, cannot be assigned to a host`);
      }
      if (before !== undefined && before !== "") {
        throw conflict(subject, info.name, `pod ${info.name} is already assigned to node ${JSON.stringify(before)}`);
      }
      next.spec = { ...next.spec, nodeName: node };
      next.status = { ...next.status, conditions: scheduled(next.status?.["conditions"], timestamp(clock)) };
      return next;
    },
  });
  return { kind: "status", status: success(201) };
}

function scheduled(conditions: unknown, time: string): JsonObject[] {
  const others = (Array.isArray(conditions) ? conditions : [])
    .filter(isJsonObject)
    .filter(({ type }) => type !== "PodScheduled");
  return [...others, { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: time }];
}

/** Answers `pods/eviction`: deletes the Pod. */
export async function evictPod(call: Call): Promise<Outcome> {
  const { request, info } = call;
  const body = isJsonObject(request.body) ? request.body : {};
  const options = deleteOptions({ ...request, body: body["deleteOptions"] ?? {} });
  const { isDryRun } = writeOptions(request, "CreateOptions");
  await deleteNamed(call, info.name, { ...options, isDryRun: isDryRun || options.isDryRun });
  return { kind: "status", status: success(201) };
}
