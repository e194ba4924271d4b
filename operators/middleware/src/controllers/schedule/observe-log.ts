import { type DeepReadonly, hasFinalizer } from "@keelson/api-machinery";
import { PersistentVolumeClaim, Pod } from "@keelson/api-machinery/kinds";
import type { ReconcileContext } from "@keelson/controller";
import { BackupSchedule } from "../../api/backup-schedule.ts";
import { backupFinalizer } from "../../api/backup-parts.ts";
import { Group } from "../../api/group.ts";
import { labels, tlsAnnotation } from "../../api/names.ts";
import { findAgentAccess } from "../agent-access.ts";
import { runningAddress } from "../backup/backup.ts";
import { findDataGroup } from "../backup/find-group.ts";
import { transferLabel } from "../backup/transfer-pod.ts";
import type { MiddlewareServices } from "../services.ts";
import { responsibleFor } from "./find-log-folder.ts";
import type { LogObservation } from "./log-decision.ts";

/** What the archive of the log depends on. Undefined if the BackupSchedule has nothing to do with it. */
export async function observeLog(
  schedule: DeepReadonly<BackupSchedule>,
  { cache, client, signal }: ReconcileContext,
  { agents, transferCommand }: MiddlewareServices,
): Promise<LogObservation | undefined> {
  if (schedule.spec.log !== true && !hasFinalizer(schedule, backupFinalizer)) return undefined;
  const { namespace, name } = schedule.metadata;
  const { app, storage } = schedule.spec;
  const responsible = responsibleFor(app.name, cache.list(BackupSchedule, { namespace }));
  const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${app.name}` });
  const group = findDataGroup(groups, app);
  const primary = "problem" in group ? undefined : group.group.status?.primary?.pod;
  const pod = primary === undefined ? undefined : cache.get(Pod, { namespace, name: primary });
  const ip = pod === undefined ? undefined : runningAddress(pod);
  const access = ip === undefined ? undefined : await findAgentAccess(client, namespace, app.name, signal);
  const role = ip === undefined || access === undefined ? undefined : await agents.role(ip, access, signal);
  const image = pod?.spec.containers[0]?.image ?? "";
  const hasTls = pod?.metadata.annotations?.[tlsAnnotation] !== undefined;
  const { volume } = storage;
  return {
    isResponsible: responsible?.metadata.name === name,
    other: responsible === undefined || responsible.metadata.name === name ? undefined : responsible.metadata.name,
    hasGroup: groups.length > 0,
    primary: ip === undefined || role?.role !== "primary" ? undefined : { ip, role, image, hasTls },
    pods: cache.list(Pod, { namespace, labelSelector: `${labels.transfer}=${transferLabel(schedule)}` }),
    claim: volume === undefined ? undefined : cache.get(PersistentVolumeClaim, { namespace, name: volume.claimName }),
    command: transferCommand,
  };
}
