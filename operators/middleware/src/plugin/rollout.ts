import type { DeepReadonly } from "@keelson/api-machinery";
import type { Group, GroupSpec } from "../api/group.ts";

const rolloutFields = ["plugin", "runtime", "config", "tls", "resources", "affinity", "values"] as const;

/** The fields of a Group's spec that determine its Pods, except their number and volumes. */
export type Rollout = Pick<GroupSpec, (typeof rolloutFields)[number]>;

/** The rollout of a spec. An empty map is the same as none. */
export function rolloutOf(spec: DeepReadonly<GroupSpec>): DeepReadonly<Rollout> {
  const { plugin, runtime } = spec;
  const optional = rolloutFields
    .filter((field) => Object.keys(spec[field] ?? {}).length > 0)
    .map((field) => [field, spec[field]] as const);
  return { ...Object.fromEntries(optional), plugin, runtime };
}

/** A Group with the Pods of another rollout. */
export function withRollout(group: DeepReadonly<Group>, rollout: DeepReadonly<Rollout>): DeepReadonly<Group> {
  const { config: _config, tls: _tls, resources: _resources, affinity: _affinity, values: _values, ...rest } = group.spec;
  return { ...group, spec: { ...rest, ...rollout } };
}
