import { controllerReference, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { compareQuantities, quantityToBytes } from "@keelson/api-machinery/quantity";
import type { App } from "../../api/app.ts";
import type { BackupStorage } from "../../api/backup-parts.ts";
import { BackupSchedule, type BackupScheduleSpec } from "../../api/backup-schedule.ts";
import { labels } from "../../api/names.ts";
import type { Effect } from "../effect.ts";

const defaultRetention = 7;
const defaultVolumeSize = "1Gi";

/** Where the backups of an App go: its `spec.backup.storage`, or its own volume with room for all that are kept. */
export function storageOfApp({ metadata, spec }: DeepReadonly<App>): DeepReadonly<BackupStorage> {
  if (spec.backup?.storage !== undefined) return spec.backup.storage;
  const sizes = spec.components?.flatMap(({ groups }) => groups?.flatMap(({ storage }) => storage?.size ?? []) ?? []) ?? [];
  const largest = sizes.reduce((a, b) => (compareQuantities(a, b) < 0 ? b : a), defaultVolumeSize as string | number);
  // One more: the new one is stored before the oldest is deleted.
  const bytes = quantityToBytes(largest) * ((spec.backup?.retention ?? defaultRetention) + 1);
  return { volume: { claimName: `${metadata.name}-backups`, size: String(Math.ceil(bytes)) } };
}

/** Applies the BackupSchedule of an App with `spec.backup`. One that is disabled is suspended, so that its backups stay. */
export function scheduleEffects(app: DeepReadonly<App>, current: DeepReadonly<BackupSchedule> | undefined): Effect[] {
  const { name = "", namespace = "", uid } = app.metadata;
  const isOwn = current?.metadata.ownerReferences?.some((owner) => owner.uid === uid) ?? false;
  // A schedule of that name that a user created is left alone.
  if (current !== undefined && !isOwn) return [];
  const { enabled = false, schedule, timeZone, retention = defaultRetention, encryption, verify, log } = app.spec.backup ?? {};
  const isActive = enabled && schedule !== undefined;
  if (!isActive && current === undefined) return [];
  const active: DeepReadonly<BackupScheduleSpec> | undefined =
    schedule === undefined
      ? current?.spec
      : {
          app: { name },
          storage: storageOfApp(app),
          schedule,
          retention: { count: retention },
          ...(timeZone === undefined ? {} : { timeZone }),
          ...(encryption === undefined ? {} : { encryption }),
          ...(verify === undefined ? {} : { verify }),
          ...(log === undefined ? {} : { log }),
        };
  if (active === undefined) return [];
  const { suspend: _, ...rest } = active;
  const defaults = { concurrencyPolicy: "Forbid", deletionPolicy: "Delete" } as const;
  const spec: DeepReadonly<BackupScheduleSpec> = { ...defaults, ...rest, ...(isActive ? {} : { suspend: true }) };
  if (jsonEquals(current?.spec, spec)) return [];
  const object: DeepReadonly<BackupSchedule> = {
    apiVersion: "middleware.io/v1alpha1",
    kind: "BackupSchedule",
    metadata: { name, namespace, labels: { [labels.app]: name }, ownerReferences: [controllerReference(app)] },
    spec,
  };
  return [{ kind: "apply", type: BackupSchedule, object }];
}
