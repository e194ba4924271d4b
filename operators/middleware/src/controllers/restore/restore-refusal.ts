import type { RestoreStatus } from "../../api/restore.ts";
import { isOwnApp, type RestoreObservation, targetApp } from "./restore-observation.ts";

/** Returns why a Restore cannot continue. */
export function refusalOf(observed: RestoreObservation, status: RestoreStatus): string | undefined {
  return backupRefusal(observed, status) ?? ownerRefusal(observed, status) ?? appRefusal(observed, status);
}

const hasStartedLoading = ({ phase }: RestoreStatus): boolean => phase === "Loading" || phase === "Syncing";

/** Once data is being replaced, the Restore uses what it has recorded of the Backup. */
function backupRefusal({ restore, backup }: RestoreObservation, status: RestoreStatus): string | undefined {
  if (hasStartedLoading(status)) return undefined;
  const { name } = restore.spec.backup;
  if (backup === undefined) return status.source === undefined ? undefined : `Backup ${name} was deleted`;
  if (backup.status?.phase === "Failed") return `Backup ${name} has failed`;
  return backup.metadata.deletionTimestamp === undefined ? undefined : `Backup ${name} is being deleted`;
}

/** The garbage collector deletes the scratch App with its owner. */
function ownerRefusal({ pods }: RestoreObservation, { scratchOwner }: RestoreStatus): string | undefined {
  if (scratchOwner === undefined) return undefined;
  const owner = pods.find(({ metadata }) => metadata.uid === scratchOwner.uid);
  if (owner !== undefined && owner.metadata.deletionTimestamp === undefined) return undefined;
  return `the Pod ${scratchOwner.name}, which owns the scratch App, was deleted`;
}

function appRefusal({ restore, app, claims }: RestoreObservation, status: RestoreStatus): string | undefined {
  const name = targetApp(restore);
  const { overwrite, verify } = restore.spec;
  const confirm = `set spec.overwrite to ${JSON.stringify(name)} to replace all of`;
  if (app !== undefined) {
    if (isOwnApp(app, restore) || overwrite === name) return undefined;
    return verify ? `App ${name} exists and does not belong to this Restore` : `App ${name} exists: ${confirm} its data`;
  }
  if (hasStartedLoading(status)) return `App ${name} was deleted`;
  // The claims of the App that this Restore creates are its own.
  if (status.createsApp === true || overwrite === name) return undefined;
  const left = claims.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (left === undefined) return undefined;
  const problem = `the volume ${left.metadata.name} of a deleted App ${name} exists`;
  return verify ? `${problem}: delete it, or rename the Restore` : `${problem}: ${confirm} its data`;
}
