import { type DeepReadonly, draft, type KubernetesObject } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { WriteResult } from "../../storage/store.ts";
import { CallAdmission } from "../admission-request.ts";
import { type Call, keyOf } from "../call.ts";
import { encodeUnstored, noteWritten, serve } from "../object/serve-object.ts";
import { conflict, deletedStatus, notFound, preconditionFailed } from "../errors.ts";
import { toStorageVersion } from "./field-context.ts";
import type { EncodedObject, ObjectOutcome, StatusOutcome } from "../outcome.ts";
import { withoutRevision } from "./update.ts";
import { showsDeletedObject } from "./update-rules.ts";
import { type DeleteOptions, deleteOptions } from "./delete-options.ts";

/** Serves delete of the object in the URL. */
export async function deleteObject(call: Call): Promise<ObjectOutcome | StatusOutcome> {
  return deleteNamed(call, call.info.name, deleteOptions(call.request));
}

/** Deletes one object, or marks it for deletion if it has finalizers or a grace period. Retries on concurrent writes. */
export async function deleteNamed(call: Call, name: string, options: DeleteOptions): Promise<ObjectOutcome | StatusOutcome> {
  const { resource, store } = call;
  const key = keyOf(call, name);
  const { propagationWarning: warning } = resource.strategy;
  if (warning !== undefined && options.propagationPolicy === undefined) call.warnings.add(warning);
  for (;;) {
    const stored = store.get(key);
    if (stored === undefined) throw notFound(resource, name);
    const { object: live } = await serve(call, stored);
    requirePreconditions(resource, name, live, options);
    const admission = new CallAdmission(call, {
      operation: "DELETE",
      subresource: "",
      name,
      object: undefined,
      oldObject: live,
      isDryRun: options.isDryRun,
      options: options.sent,
    });
    await call.admission.mutate(admission);
    await call.admission.validate(admission);
    await call.admission.review(admission);
    const plan = planDeletion(resource, live, options, (offsetSeconds) => call.timestamps.now(offsetSeconds), call.clock.now());
    if (plan.kind === "unchanged") return terminating(call, await serve(call, stored), options);
    if (plan.kind === "mark") {
      if (options.isDryRun) return terminating(call, encodeUnstored(plan.next), options);
      const result = await store.write(key, stored.revision, await toStorageVersion(call, plan.next));
      if (result.ok) {
        noteWritten(call, result.stored);
        return terminating(call, await serve(call, result.stored), options);
      }
    } else {
      if (options.isDryRun) return deleted(call, name, encodeUnstored(plan.marked ?? withoutRevision(live)));
      const result = await remove(call, key, stored.revision, plan.marked);
      if (result.ok) return deleted(call, name, await serve(call, result.stored));
    }
    if (options.resourceVersion !== undefined) throw conflict(resource, name);
  }
}

function terminating(call: Call, object: ObjectOutcome["object"], options: DeleteOptions): ObjectOutcome {
  return { kind: "object", status: options.isCascadeRequested ? 202 : 200, object, resource: call.resource, subresource: "" };
}

/** Removes an object. One with a grace period is marked first, so that watchers see that the period is over before it is deleted. */
async function remove(call: Call, key: string, revision: number, marked: KubernetesObject | undefined): Promise<WriteResult> {
  if (marked === undefined) return call.store.write(key, revision, undefined);
  const result = await call.store.write(key, revision, await toStorageVersion(call, marked));
  return result.ok ? call.store.write(key, result.stored.revision, undefined) : result;
}

function deleted({ resource }: Call, name: string, object: EncodedObject): ObjectOutcome | StatusOutcome {
  if (showsDeletedObject(resource)) return { kind: "object", status: 200, object, resource, subresource: "" };
  return { kind: "status", status: deletedStatus(resource, name, object.object.metadata.uid) };
}

function requirePreconditions(
  resource: ServedResource,
  name: string,
  live: DeepReadonly<KubernetesObject>,
  { uid, resourceVersion }: DeleteOptions,
): void {
  if (resource.group === "" && resource.kind === "Namespace")
    requireNamespacePreconditions(resource, name, live, { uid, resourceVersion });
  if (uid !== undefined && uid !== live.metadata.uid) {
    const why =
      `the UID in the precondition (${uid}) does not match the UID in record (${live.metadata.uid ?? ""}). ` +
      "The object might have been deleted and then recreated";
    throw preconditionFailed(resource, name, why);
  }
  if (resourceVersion !== undefined && resourceVersion !== live.metadata.resourceVersion) {
    const why =
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record ` +
      `(${live.metadata.resourceVersion ?? ""}). The object might have been modified`;
    throw preconditionFailed(resource, name, why);
  }
}

/** Namespaces are deleted by their own code, which reports failed preconditions like an update. */
function requireNamespacePreconditions(
  resource: ServedResource,
  name: string,
  { metadata }: DeepReadonly<KubernetesObject>,
  { uid = metadata.uid, resourceVersion = metadata.resourceVersion }: Pick<DeleteOptions, "uid" | "resourceVersion">,
): void {
  if (uid !== metadata.uid) {
    throw conflict(
      resource,
      name,
      `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${metadata.uid ?? ""}`,
    );
  }
  if (resourceVersion === metadata.resourceVersion) return;
  const found = `ResourceVersion in object meta: ${metadata.resourceVersion ?? ""}`;
  throw conflict(resource, name, `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ${found}`);
}

/** The effect of a delete: none because the object is already terminating, mark it for deletion, or remove it. */
export type DeletionPlan =
  | { readonly kind: "unchanged" }
  | { readonly kind: "mark"; readonly next: KubernetesObject }
  /** `marked` is stored before the removal. */
  | { readonly kind: "remove"; readonly marked?: KubernetesObject };

/**
 * Decides a delete (rest.BeforeDelete). `time(offsetSeconds)` formats the current time plus an offset. A repeated delete can
 * shorten the grace period but never extend it.
 */
function planDeletion(
  resource: ServedResource,
  live: DeepReadonly<KubernetesObject>,
  options: DeleteOptions,
  time: (offsetSeconds: number) => string,
  nowMs: number,
): DeletionPlan {
  const { metadata } = live;
  const grace = graceSeconds(resource, live, options);
  const next = draft(live);
  next.metadata.finalizers = [...finalizersAfter(resource, metadata.finalizers ?? [], options)];
  if (metadata.deletionTimestamp === undefined) resource.strategy.prepareForDelete?.(next);
  const isHeldByStrategy = resource.strategy.isHeld?.(next) === true;
  const { finalizers } = next.metadata;
  const isRemoved = grace === 0 && finalizers.length === 0 && !isHeldByStrategy;
  const hasGrace = resource.strategy.defaultGraceSeconds !== undefined;
  if (isRemoved && (!hasGrace || metadata.deletionGracePeriodSeconds === 0)) return { kind: "remove" };
  let isChanged = !sameList(finalizers, metadata.finalizers ?? []);
  if (finalizers.length === 0) delete next.metadata.finalizers;
  if (metadata.deletionTimestamp === undefined) {
    isChanged = true;
    next.metadata.deletionTimestamp = time(grace);
    // A Namespace has no grace period: it is removed once its content is.
    if (!isHeldByStrategy) next.metadata.deletionGracePeriodSeconds = grace;
    if (metadata.generation !== undefined) next.metadata.generation = metadata.generation + 1;
  } else {
    const before = metadata.deletionGracePeriodSeconds ?? 0;
    if (grace < before) {
      isChanged = true;
      const remaining = Math.round((Date.parse(metadata.deletionTimestamp) - nowMs) / 1000) - (before - grace);
      next.metadata.deletionTimestamp = time(Math.max(remaining, 0));
      next.metadata.deletionGracePeriodSeconds = grace;
    }
  }
  if (isRemoved) return { kind: "remove", marked: next };
  return isChanged ? { kind: "mark", next } : { kind: "unchanged" };
}

/** Grace period of a delete in seconds. Only Pods bound to a node, and kinds whose strategy sets a default, have one. */
function graceSeconds(resource: ServedResource, live: DeepReadonly<KubernetesObject>, options: DeleteOptions): number {
  const { defaultGraceSeconds } = resource.strategy;
  if (resource.group !== "" || resource.plural !== "pods") {
    if (defaultGraceSeconds === undefined || defaultGraceSeconds === 0) return 0;
    return options.gracePeriodSeconds ?? defaultGraceSeconds;
  }
  const { spec, status } = live as DeepReadonly<PodObject>;
  if (!spec?.nodeName || status?.phase === "Succeeded" || status?.phase === "Failed") return 0;
  const before = live.metadata.deletionGracePeriodSeconds;
  const requested = options.gracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? defaultGraceSeconds ?? 30;
  return live.metadata.deletionTimestamp === undefined || before === undefined ? requested : Math.min(requested, before);
}

/**
 * Sets the garbage collector's finalizers according to the propagation policy. Without a policy they stay unchanged, or the kind's default
 * applies if there are none.
 */
function finalizersAfter(
  { strategy }: ServedResource,
  finalizers: readonly string[],
  options: DeleteOptions,
): readonly string[] {
  const hasOwn = finalizers.some((name) => name === "orphan" || name === "foregroundDeletion");
  const propagationPolicy = options.propagationPolicy ?? (hasOwn ? undefined : strategy.defaultPropagation);
  if (propagationPolicy === undefined) return finalizers;
  const wanted =
    propagationPolicy === "Orphan" ? "orphan" : propagationPolicy === "Foreground" ? "foregroundDeletion" : undefined;
  const others = finalizers.filter((name) => name === wanted || (name !== "orphan" && name !== "foregroundDeletion"));
  return wanted === undefined || others.includes(wanted) ? others : [...others, wanted];
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
