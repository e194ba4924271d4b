import type { KubernetesObject } from "@keelson/api-machinery";
import { runSteps, trackUpdateInSteps } from "@keelson/api-machinery/server";
import type { ServedResource, Strategy } from "../../registry/served-resource.ts";
import { admitUnstored, operationOptions } from "../admission-request.ts";
import type { Call } from "../call.ts";
import { badRequest } from "../errors.ts";
import { readBody } from "../object/body.ts";
import { normalizeObject } from "../object/normalize.ts";
import { encodeUnstored } from "../object/serve-object.ts";
import type { ObjectOutcome } from "../outcome.ts";
import { fieldContext } from "./field-context.ts";
import { writeOptions } from "./write-options.ts";

/** An object that a create answers without storing it: a review, or a token. */
export interface Evaluation {
  /** The resource with the group, version, kind and schema of the object. */
  readonly resource: ServedResource;
  readonly evaluate: NonNullable<Strategy["evaluate"]>;
  /** Whether the server drops the object's uid. Default true. A TokenRequest names the uid of its service account. */
  readonly dropsUid?: boolean;
}

/**
 * Serves create of an object that is not stored. As for other objects, unknown fields are reported, a value of the wrong type is a
 * `BadRequest`, and the response has managedFields.
 */
export async function evaluateObject(call: Call, { resource, evaluate, dropsUid = true }: Evaluation): Promise<ObjectOutcome> {
  const { request, namespace, info } = call;
  const options = writeOptions(request, "CreateOptions");
  const own: Call = { ...call, resource };
  const object = await normalizeObject(own, readBody(resource, request.body), options);
  requireNamespace(own, object);
  dropSystemFields(object, dropsUid);
  const tracked = runSteps(trackUpdateInSteps(undefined, object, fieldContext(own, options, info.subresource)));
  const { group, version, kind } = resource;
  const admitted = await admitUnstored(call, {
    operation: "CREATE",
    ...(info.subresource === "" ? {} : { kind: { group, version, kind } }),
    name: info.subresource === "" ? (object.metadata.name ?? "") : info.name,
    object: tracked,
    isDryRun: options.isDryRun,
    options: operationOptions(call, "CreateOptions"),
  });
  const evaluated = await evaluate(admitted, { user: request.user, namespace, name: info.name });
  return {
    kind: "object",
    status: 201,
    object: encodeUnstored(evaluated),
    resource: call.resource,
    subresource: info.subresource,
  };
}

/** A namespaced object is in the namespace of the path. The namespace of an object without one is dropped. */
function requireNamespace({ resource, namespace, info }: Call, { metadata }: KubernetesObject): void {
  if (resource.scope === "Cluster") delete metadata.namespace;
  else {
    if (info.subresource === "") metadata.namespace ??= namespace;
    if ((metadata.namespace ?? namespace) === namespace) return;
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
}

function dropSystemFields({ metadata }: KubernetesObject, dropsUid: boolean): void {
  if (dropsUid) delete metadata.uid;
  delete metadata.creationTimestamp;
  delete metadata.deletionTimestamp;
  delete metadata.deletionGracePeriodSeconds;
  delete metadata.selfLink;
}
