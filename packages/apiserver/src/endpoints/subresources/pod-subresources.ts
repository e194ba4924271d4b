import { draft, isJsonObject, type KubernetesObject, type ObjectMeta, type Status } from "@keelson/api-machinery";
import type { BuiltInCondition, PodObject } from "@keelson/api-machinery/kinds";
import { unclassifiedError } from "@keelson/api-machinery/validation";
import { type Call, keyOf } from "../call.ts";
import { badRequest, conflict, notFound } from "../errors.ts";
import { readMetadata } from "../object/metadata.ts";
import type { Outcome } from "../outcome.ts";
import { commitUpdate } from "../write/update.ts";
import { writeOptions } from "../write/write-options.ts";

/** Serves a subresource that is not a view of its object. The object need not exist. */
export type SubresourceHandler = (call: Call) => Promise<Outcome>;

/** The response to a successful action that returns no object. */
export function success(code: number): Status {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code };
}

/** Reads the metadata in the body of a subresource's create. Throws `BadRequest` unless it names the Pod in the URL. */
export function namedMetadata(call: Call, kind: "Binding" | "Eviction"): Partial<ObjectMeta> {
  const { info } = call;
  const metadata = bodyMetadata(call, kind);
  if (metadata.name !== info.name) throw badRequest(`name in URL does not match name in ${kind} object`);
  return metadata;
}

function bodyMetadata({ request, info, resource }: Call, kind: "Binding" | "Eviction"): Partial<ObjectMeta> {
  const body = isJsonObject(request.body) ? request.body : {};
  const { kind: sent = kind } = body;
  if (sent !== "" && sent !== kind) {
    throw badRequest(`${String(sent)} in version ${JSON.stringify(resource.version)} cannot be handled as a ${kind}`);
  }
  const metadata = readMetadata(body["metadata"] ?? {}, kind, resource.version, []);
  if (metadata.namespace !== undefined && metadata.namespace !== info.namespace) {
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
  return metadata;
}

/** Serves create of `bindings`: like `pods/binding`, with the Pod named in the body. */
export async function bindByName(call: Call): Promise<Outcome> {
  const resource = call.resources.get("", "v1", "pods");
  const { name } = bodyMetadata(call, "Binding");
  if (resource === undefined || name === undefined) throw badRequest("name in URL does not match name in Binding object");
  return bindPod({ ...call, resource, info: { ...call.info, resource: "pods", subresource: "binding", name, isNamed: true } });
}

/** Serves `pods/binding`: assigns a Pod to its node, once. */
export async function bindPod(call: Call): Promise<Outcome> {
  const { request, info, resource } = call;
  const options = writeOptions(request, "CreateOptions");
  const { uid, annotations } = namedMetadata(call, "Binding");
  const target = isJsonObject(request.body) ? request.body["target"] : undefined;
  const node = isJsonObject(target) ? target["name"] : undefined;
  const kind = (isJsonObject(target) ? target["kind"] : undefined) ?? "Node";
  if (kind !== "Node" && kind !== "") {
    throw unclassifiedError(`target.kind: Unsupported value: ${JSON.stringify(kind)}: supported values: "Node", "<empty>"`);
  }
  if (typeof node !== "string" || node === "") throw unclassifiedError("target.name: Required value");
  if (call.store.get(keyOf(call)) === undefined) throw notFound(resource, info.name);
  await commitUpdate(call, {
    options,
    isUidChecked: false,
    // A binding has no field manager.
    isTracked: true,
    subresource: "binding",
    view: {
      operation: "CREATE",
      kind: { group: "", version: "v1", kind: "Binding" },
      show: () => ({ ...bindingOf(call), apiVersion: "v1", kind: "Binding" }),
    },
    produce(live) {
      const next = draft(live) as PodObject;
      const before = next.spec?.nodeName;
      const subject = { group: "", plural: "pods/binding" };
      if (uid !== undefined && uid !== next.metadata.uid) {
        const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${next.metadata.uid ?? ""}`;
        throw conflict(subject, info.name, why);
      }
      if (next.metadata.deletionTimestamp !== undefined) {
        throw conflict(subject, info.name, `pod ${info.name} is being deleted, cannot be assigned to a host`);
      }
      if (before !== undefined && before !== "") {
        throw conflict(subject, info.name, `pod ${info.name} is already assigned to node ${JSON.stringify(before)}`);
      }
      if (annotations !== undefined) next.metadata.annotations = { ...next.metadata.annotations, ...annotations };
      next.spec = { ...next.spec, nodeName: node };
      // The nomination of a preemption ends with the binding.
      const { nominatedNodeName: _, ...status } = next.status ?? {};
      next.status = { ...status, conditions: withScheduled(status.conditions, call.timestamps.now()) };
      return next;
    },
  });
  return { kind: "status", status: success(201) };
}

function bindingOf({ request }: Call): KubernetesObject {
  return draft(isJsonObject(request.body) ? request.body : {}) as unknown as KubernetesObject;
}

function withScheduled(conditions: readonly BuiltInCondition[] = [], time: string): BuiltInCondition[] {
  const others = conditions.filter(({ type }) => type !== "PodScheduled");
  // Go encodes the zero lastProbeTime as null, which the type does not have.
  const scheduled: unknown = { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: time };
  return [...others, scheduled as BuiltInCondition];
}
