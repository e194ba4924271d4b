import { type DeepReadonly, ignoreNotFound } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { ReconcileContext } from "@keelson/controller";
import type { IntegrationTest } from "../../api/integration-test.ts";
import { type ClusterConnection, openCluster } from "../../clusters/cluster-connection.ts";
import { kubeconfigOf, secretTarget } from "../../clusters/kubeconfig-secret.ts";
import type { ActionContext } from "../resource-actions.ts";
import { errorMessage } from "../running-tests.ts";
import { deleteForeignObjects, type ForeignObject } from "./foreign-objects.ts";

/** Inputs of {@link deleteRemoteObjects}. */
export interface RemoteScope {
  readonly test: DeepReadonly<IntegrationTest>;
  readonly context: ActionContext;
  readonly reconcile: ReconcileContext;
}

/**
 * Deletes the objects that a test created in other clusters. If the kubeconfig of a cluster no longer exists or is invalid, its objects are
 * left there and a Warning event says so: otherwise a namespace whose Secrets are deleted first could never be deleted. **Errors**: throws if
 * an object cannot be deleted yet.
 */
export async function deleteRemoteObjects(objects: readonly ForeignObject[], scope: RemoteScope): Promise<void> {
  const { test, context, reconcile } = scope;
  for (const name of new Set(objects.map(({ cluster }) => cluster ?? ""))) {
    const own = objects.filter(({ cluster }) => cluster === name);
    const connection = await connect(name, scope);
    if (typeof connection === "string") {
      const left = own.map(({ kind, name: object }) => `${kind} ${object}`).join(", ");
      const note = `cluster ${name}: ${connection}; not deleted: ${left}`.slice(0, 1_024);
      reconcile.events.event(test, { type: "Warning", reason: "ObjectsLeft", note });
      continue;
    }
    try {
      const { client } = connection;
      await connection.discover(own.map(({ apiVersion }) => apiVersion));
      await deleteForeignObjects(own, { ...context, client, mapKind: connection.mapKind, isRemote: true });
    } finally {
      connection.close();
    }
  }
}

/** Connects to a cluster of a test that does not run. Resolves to the reason if that will never be possible. */
async function connect(name: string, { test, reconcile }: RemoteScope): Promise<ClusterConnection | string> {
  const { client, clock, log, signal } = reconcile;
  const { namespace = "" } = test.metadata;
  const cluster = test.spec.clusters?.find((each) => each.name === name);
  if (cluster === undefined) return "not found in spec.clusters";
  const { kubeconfigSecret } = cluster;
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: kubeconfigSecret.name }, { signal }));
  const objects = secret === undefined ? [] : [{ ...secret }];
  const known = { kind: "known", objects, hasSeen: () => true } as const;
  const kubeconfig = kubeconfigOf(known, secretTarget(kubeconfigSecret.name, namespace), kubeconfigSecret.key);
  if (typeof kubeconfig === "string") return kubeconfig;
  const { source, text } = kubeconfig;
  const ignore = (): void => {};
  try {
    return await openCluster({
      ...{ kubeconfig: text, source, fieldManager: "testplane", clock, log },
      ...{ wake: ignore, onKindsChange: ignore },
    });
  } catch (error) {
    return errorMessage(error);
  }
}
