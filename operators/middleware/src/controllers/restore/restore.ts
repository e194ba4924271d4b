import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { PersistentVolumeClaim, Pod } from "@keelson/api-machinery/kinds";
import {
  type Cache,
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { App } from "../../api/app.ts";
import { Backup } from "../../api/backup.ts";
import { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import { Restore, type RestoreStatus } from "../../api/restore.ts";
import { AgentCallError } from "../agent-call-error.ts";
import { runningAddress } from "../backup/backup.ts";
import { transferLabel } from "../backup/transfer-pod.ts";
import { performEffects } from "../perform-effects.ts";
import type { MiddlewareServices } from "../services.ts";
import { decideRestore } from "./restore-decision.ts";
import { hasEnded, type RestoreObservation, sourceOf, targetApp } from "./restore-observation.ts";

const fieldManager = "middleware-restore-controller";

/** Restores of the namespace of an object that satisfy a predicate. */
const restoresOf = (
  object: DeepReadonly<KubernetesObject>,
  cache: Cache,
  isAffected: (restore: DeepReadonly<Restore>) => boolean,
): readonly Request[] =>
  cache
    .list(Restore, { namespace: object.metadata.namespace })
    .filter(isAffected)
    .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" }));

/** Creates the Restore controller. */
export function createRestoreController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-restore",
    for: Restore,
    owns: [Pod],
    watches: [
      watchOf(Backup, (backup, { cache }) =>
        restoresOf(backup, cache, ({ spec, status }) => spec.backup.name === backup.metadata.name && !hasEnded(status ?? {})),
      ),
      watchOf(App, (app, { cache }) => restoresOf(app, cache, (restore) => targetApp(restore) === app.metadata.name)),
      watchOf(Group, (group, { cache }) =>
        restoresOf(group, cache, (restore) => targetApp(restore) === group.metadata.labels?.[labels.app]),
      ),
      // The volumes of a scratch App, and those that a deleted App has left.
      watchOf(PersistentVolumeClaim, (claim, { cache }) =>
        restoresOf(claim, cache, (restore) => targetApp(restore) === claim.metadata.labels?.[labels.app]),
      ),
    ],
    maxConcurrentReconciles: 5,
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  { agents, generateSecret, completePod, transferCommand }: MiddlewareServices,
): Promise<Result | undefined> {
  const { cache, client, clock, signal, events } = context;
  const restore = cache.get(Restore, request);
  if (restore === undefined) return undefined;
  const { effects, requeueAfterMs } = decideRestore(observe(restore, cache, transferCommand, clock.now()));
  await performEffects(effects, {
    ...{ client, fieldManager, signal, agents, generateSecret, completePod },
    agentAccess: () => Promise.reject(new AgentCallError("NoToken", "the Restore controller changes no programs itself")),
  });
  const written = effects.find((effect) => effect.kind === "status");
  const { phase, message = "" } = (written?.status ?? {}) as RestoreStatus;
  if (phase !== undefined && phase !== restore.status?.phase)
    events.event(restore, { type: phase === "Failed" ? "Warning" : "Normal", reason: `Restore${phase}`, note: message });
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}

function observe(restore: DeepReadonly<Restore>, cache: Cache, command: readonly string[], now: number): RestoreObservation {
  const { namespace } = restore.metadata;
  const name = targetApp(restore);
  const backup = cache.get(Backup, { namespace, name: restore.spec.backup.name });
  const source = sourceOf(restore.status, backup);
  const group = cache
    .list(Group, { namespace, labelSelector: `${labels.app}=${name}` })
    .find(
      ({ metadata }) =>
        metadata.labels?.[labels.component] === source?.component && metadata.labels?.[labels.group] === source?.group,
    );
  const primary = group?.status?.primary?.pod;
  const pod = primary === undefined ? undefined : cache.get(Pod, { namespace, name: primary });
  return {
    restore,
    backup,
    app: cache.get(App, { namespace, name }),
    group,
    primary: pod === undefined ? undefined : runningAddress(pod),
    pods: cache.list(Pod, { namespace, labelSelector: `${labels.transfer}=${transferLabel(restore)}` }),
    claims: cache.list(PersistentVolumeClaim, { namespace, labelSelector: `${labels.app}=${name}` }),
    ...{ command, now },
  };
}
