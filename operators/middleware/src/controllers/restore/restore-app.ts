import { type DeepReadonly, draft } from "@keelson/api-machinery";
import type { App } from "../../api/app.ts";
import { annotations } from "../../api/names.ts";
import type { Restore, RestoreSource, RestoreStatus } from "../../api/restore.ts";
import { targetApp } from "./restore-observation.ts";

/** The App of a Restore. It has no owner unless it is a scratch App: it outlives the Restore. */
export function appOf(
  restore: DeepReadonly<Restore>,
  source: DeepReadonly<RestoreSource>,
  scratchOwner: RestoreStatus["scratchOwner"],
): DeepReadonly<App> {
  const { namespace = "", uid = "" } = restore.metadata;
  const spec = draft(source.appSpec) as unknown as App["spec"];
  delete spec.stopped;
  if (restore.spec.verify) {
    // A scratch App is not backed up and has one Pod: the size of the group says nothing about the data.
    delete spec.backup;
    // The Restore deletes its volumes.
    delete spec.deletionPolicy;
    const { component, group } = source;
    const components = spec.components?.filter(({ name }) => name !== component) ?? [];
    const own = spec.components?.find(({ name }) => name === component);
    const groups = own?.groups?.filter(({ name }) => name !== group) ?? [];
    const part = own?.groups?.find(({ name }) => name === group);
    spec.components = [...components, { ...own, name: component, groups: [...groups, { ...part, name: group, replicas: 1 }] }];
  }
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "App",
    metadata: {
      name: targetApp(restore),
      namespace,
      annotations: { [annotations.restoredBy]: uid },
      ...(scratchOwner === undefined ? {} : { ownerReferences: [{ apiVersion: "v1", kind: "Pod", ...scratchOwner }] }),
    },
    spec,
  };
}
