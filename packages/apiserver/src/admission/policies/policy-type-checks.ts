import { StatusError } from "@keelson/api-machinery";
import type { Handle } from "../../endpoints/outcome.ts";
import { valueAt } from "../../registry/object-fields.ts";
import type { ResourceTable } from "../../registry/served-resource.ts";
import { systemUser } from "../../system-user.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { checkPolicyTypes } from "./policy-type-check.ts";

/** What {@link startPolicyTypeChecks} takes. */
export interface PolicyTypeCheckOptions {
  readonly store: Pick<Store, "get" | "list" | "watch">;
  readonly resources: Pick<ResourceTable, "get" | "byKind">;
  readonly handle: Handle;
  /** Called with background errors. */
  readonly onError: (error: unknown) => void;
}

const group = "admissionregistration.k8s.io";
const plural = "validatingadmissionpolicies";
const prefix = storageKey({ group, plural }, "", "");

/**
 * Checks the types of each new generation of a ValidatingAdmissionPolicy and writes `status.typeChecking` and `status.observedGeneration`, like
 * kube-controller-manager's validatingadmissionpolicy-status-controller.
 */
export function startPolicyTypeChecks(options: PolicyTypeCheckOptions): { stop(): Promise<void> } {
  const { store, resources, handle, onError } = options;
  let isStopped = false;
  let working = Promise.resolve();

  const check = async (key: string): Promise<void> => {
    const policy = store.get(key)?.object;
    const generation = policy?.metadata.generation ?? 0;
    if (isStopped || policy === undefined || generation <= Number(valueAt(policy, "status", "observedGeneration") ?? 0)) return;
    const warnings = await checkPolicyTypes(policy, resources);
    const { name = "", uid = "" } = policy.metadata;
    const typeChecking = warnings.length === 0 ? {} : { expressionWarnings: warnings.map((warning) => ({ ...warning })) };
    const apiVersion = `${group}/v1`;
    const outcome = await handle({
      method: "PATCH",
      path: `/apis/${apiVersion}/${plural}/${encodeURIComponent(name)}/status`,
      query: { fieldManager: "validatingadmissionpolicy-status", force: "true" },
      headers: { "content-type": "application/apply-patch+yaml" },
      body: {
        ...{ apiVersion, kind: "ValidatingAdmissionPolicy", metadata: { name, uid } },
        status: { observedGeneration: generation, typeChecking },
      },
      user: systemUser,
    });
    // The uid makes the apply fail if the policy was replaced in the meantime. Its successor is checked on its own.
    const isReplaced = store.get(key)?.object.metadata.uid !== uid;
    if (outcome.kind === "status" && !isReplaced) onError(new StatusError(outcome.status));
  };
  const enqueue = (key: string): void => {
    working = working.then(() => check(key)).catch(onError);
  };
  const { items, revision } = store.list(prefix);
  for (const { key } of items) enqueue(key);
  const watch = store.watch(prefix, revision, (events) => {
    for (const { type, object } of events) if (type === "put") enqueue(object.key);
  });
  return {
    async stop() {
      isStopped = true;
      watch.close();
      await working;
    },
  };
}
