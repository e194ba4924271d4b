import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { IntegrationTest, IntegrationTestStatus } from "../../api/integration-test.ts";
import type { TestStep } from "../../api/test-step.ts";
import { manifestsOf } from "../../operations/step-objects.ts";
import type { StepAct } from "./step-decision.ts";
import { type ActionContext, deleteResource } from "../resource-actions.ts";

/** An action that a controller performs on a step, with its expressions evaluated. */
export interface PendingAction {
  readonly index: number;
  readonly act: StepAct;
  readonly step: DeepReadonly<TestStep>;
}

/** An object outside the test's namespace. */
export type ForeignObject = DeepReadonly<NonNullable<IntegrationTestStatus["foreignObjects"]>[number]>;

/** The context of an action, or why it cannot be performed. */
export type ContextOf = (action: Pick<PendingAction, "index" | "step">) => ActionContext | Error;

/**
 * Adds the objects outside the test's namespace that actions are about to create. They cannot be owned by the test, so garbage
 * collection does not delete them. Objects within the isolated namespace are deleted with it.
 */
export function withForeignObjects(
  before: readonly ForeignObject[],
  pending: readonly PendingAction[],
  { metadata }: DeepReadonly<IntegrationTest>,
  contextOf: ContextOf,
): readonly ForeignObject[] {
  const objects = [...before];
  for (const action of pending) {
    const context = contextOf(action);
    if (context instanceof Error) continue;
    const { cluster } = action.step;
    for (const manifest of manifestsOf(action.step)) {
      const { name, namespace } = manifest["metadata"] as { readonly name: string; readonly namespace?: string };
      const [apiVersion, kind] = [String(manifest["apiVersion"]), String(manifest["kind"])];
      const isCluster = context.mapKind(apiVersion, kind)?.scope === "Cluster";
      const place = isCluster ? undefined : (namespace ?? context.namespace ?? metadata.namespace);
      const isNear = place !== undefined && (place === metadata.namespace || place === context.namespace);
      if (cluster === undefined && isNear) continue;
      const object = {
        ...(cluster === undefined ? {} : { cluster }),
        ...{ apiVersion, kind },
        ...(place === undefined ? {} : { namespace: place }),
        name,
      };
      if (!objects.some((each) => jsonEquals(each, object))) objects.push(object);
    }
  }
  return objects;
}

/** Deletes the objects that the test created, in reverse order. **Errors**: throws if one cannot be deleted yet. */
export async function deleteForeignObjects(objects: readonly ForeignObject[], context: ActionContext): Promise<void> {
  for (const { apiVersion, kind, namespace, name } of objects.toReversed()) {
    const manifest = { apiVersion, kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) } };
    // A kind that is no longer served has no objects.
    if (context.mapKind(apiVersion, kind) === undefined) continue;
    const outcome = await deleteResource(manifest, { ...context, onlyOwn: true });
    if (outcome.kind !== "done") throw new CleanupError(`${kind} ${name}: ${outcome.message}`);
  }
}

/** An object that a test created could not be deleted. The deletion of the test is retried. */
class CleanupError extends Error {
  override readonly name = "CleanupError";
  readonly code = "CleanupFailed";
}
