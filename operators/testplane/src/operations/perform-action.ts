import { type DeepReadonly, isAlreadyExists, type ResourceType } from "@keelson/api-machinery";
import type { Patch } from "@keelson/client";
import type { ObjectReference } from "../api/step-actions.ts";
import type { TestStep } from "../api/test-step.ts";
import {
  type ActionContext,
  type ActionResult,
  applyResource,
  attemptAnnotation,
  createdByTest,
  deleteResource,
  getIfPresent,
  identityOf,
  outcomeOf,
  unknownKind,
} from "../controllers/resource-actions.ts";
import type { ActionOutcome } from "./action-outcome.ts";
import { type Access, deniedAccess } from "./authorize.ts";
import { judgeRejection } from "./expected-error.ts";
import { manifestsOf } from "./step-objects.ts";

type Step = DeepReadonly<TestStep>;

/** Performs the action of a step. Idempotent, except for JSON patches. */
export async function performAction(step: Step, context: ActionContext): Promise<ActionResult> {
  const outcome = await perform(step, context);
  return step.expectError === undefined ? outcome : judgeRejection(outcome, step.expectError);
}

async function perform(step: Step, context: ActionContext): Promise<ActionResult> {
  const { resource, patch, scale } = step;
  if (resource?.manifest !== undefined && resource.action === "Delete") return deleteManifest(resource.manifest, context);
  if (step.delete !== undefined) {
    const { object, propagationPolicy } = step.delete;
    return withAccess("delete", object, context, () => deleteResource(asManifest(object), context, propagationPolicy));
  }
  if (patch !== undefined) return patchObject(patch.object, patchOf(patch), patch.subresource, context);
  if (scale !== undefined) {
    const body = { spec: { replicas: scale.replicas } };
    return patchObject(scale.object, { type: "merge", body }, "scale", context);
  }
  return writeObjects(step, context);
}

const deleteManifest = (manifest: DeepReadonly<Record<string, unknown>>, context: ActionContext): Promise<ActionResult> =>
  withAccess("delete", referenceOf(manifest), context, () => deleteResource(manifest, context));

/** Applies or creates objects one after another, and stops at the first that fails. */
async function writeObjects(step: Step, context: ActionContext): Promise<ActionResult> {
  let first: ActionResult | undefined;
  for (const manifest of manifestsOf(step)) {
    const outcome = await withAccess(step.create === undefined ? "patch" : "create", referenceOf(manifest), context, () =>
      step.create === undefined
        ? applyResource(manifest, step.resource?.adopt ?? false, context)
        : createObject(manifest, context),
    );
    if (outcome.kind !== "done") return outcome;
    first ??= outcome;
  }
  return first ?? { kind: "done" };
}

async function createObject(manifest: DeepReadonly<Record<string, unknown>>, context: ActionContext): Promise<ActionOutcome> {
  const reference = referenceOf(manifest);
  const type = context.mapKind(reference.apiVersion, reference.kind);
  if (type === undefined) return unknownKind(manifest);
  const { client, signal } = context;
  try {
    const created = await client.create(type, createdByTest(manifest, type, context) as never, {
      fieldValidation: "Strict",
      signal,
    });
    return { kind: "done", object: identityOf(created, reference.name) };
  } catch (error) {
    if (!isAlreadyExists(error)) return outcomeOf(error, "CreateFailed");
    // The response to an earlier attempt may have been lost.
    const present = await getIfPresent(client, type, keyOf(reference, type, context), signal).catch(() => undefined);
    const { attempt } = context;
    return present !== undefined && attempt !== undefined && present.metadata.annotations?.[attemptAnnotation] === attempt
      ? { kind: "done", object: identityOf(present, reference.name) }
      : outcomeOf(error, "CreateFailed");
  }
}

const patchOf = ({ type = "merge", body }: NonNullable<Step["patch"]>): Patch =>
  type === "json" ? { type, operations: body as never } : { type, body };

async function patchObject(
  reference: DeepReadonly<ObjectReference>,
  patch: Patch,
  subresource: string | undefined,
  context: ActionContext,
): Promise<ActionResult> {
  const options = subresource === undefined ? {} : { subresource };
  return withAccess(
    "patch",
    reference,
    context,
    async (type) => {
      const { client, signal, fieldManager } = context;
      const key = keyOf(reference, type, context);
      try {
        const patched = await client.patch(type, key, patch, { fieldManager, fieldValidation: "Strict", signal, ...options });
        return { kind: "done", object: identityOf(patched, reference.name) };
      } catch (error) {
        return outcomeOf(error, "PatchFailed");
      }
    },
    subresource,
  );
}

/** Performs an action if the test has the permission to. */
async function withAccess(
  verb: Access["verb"],
  reference: DeepReadonly<ObjectReference>,
  context: ActionContext,
  act: (type: ResourceType) => Promise<ActionResult>,
  subresource?: string,
): Promise<ActionResult> {
  const type = context.mapKind(reference.apiVersion, reference.kind);
  if (type === undefined) return unknownKind(reference);
  const { client, owner, signal, serviceAccountName, isRemote } = context;
  if (isRemote === true) return act(type);
  const { namespace } = keyOf(reference, type, context);
  const home = owner.metadata.namespace ?? "";
  if (serviceAccountName === undefined) {
    if (namespace === home) return act(type);
    const message = `${type.kind} ${reference.name} is outside the test's namespace; set spec.serviceAccountName to a ServiceAccount that may change it`;
    return { kind: "failed", reason: "Forbidden", message };
  }
  try {
    const access = { verb, type, namespace, name: reference.name, ...(subresource === undefined ? {} : { subresource }) };
    const denied = await deniedAccess(client, { namespace: home, name: serviceAccountName }, access, signal);
    return denied === undefined ? await act(type) : { kind: "failed", reason: "Forbidden", message: denied };
  } catch (error) {
    return outcomeOf(error, "Forbidden");
  }
}

function keyOf(reference: DeepReadonly<ObjectReference>, type: ResourceType, context: ActionContext) {
  const namespace =
    type.scope === "Cluster" ? undefined : (reference.namespace ?? context.namespace ?? context.owner.metadata.namespace);
  return { namespace, name: reference.name };
}

/** The reference to the object of a manifest. */
function referenceOf(manifest: DeepReadonly<Record<string, unknown>>): ObjectReference {
  const { name, namespace } = manifest["metadata"] as { readonly name: string; readonly namespace?: string };
  const reference = { apiVersion: String(manifest["apiVersion"]), kind: String(manifest["kind"]), name: String(name) };
  return namespace === undefined ? reference : { ...reference, namespace };
}

const asManifest = ({ apiVersion, kind, name, namespace }: DeepReadonly<ObjectReference>) => ({
  apiVersion,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
});
