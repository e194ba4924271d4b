import { type DeepReadonly, draft, isJsonObject, type JsonValue, jsonEquals } from "@keelson/api-machinery";
import type { App, TaskType } from "../../api/app.ts";
import type { ComponentSpec } from "../../api/component.ts";
import type { GroupPart } from "../../api/parts.ts";
import type { Plugin } from "../../plugin/plugin.ts";

/** The part of a Component's spec that one type of task changes. */
export type SpecPart = Partial<Pick<ComponentSpec, "plugin" | "runtime" | "config" | "tls" | "stopped">> & {
  groups?: Partial<GroupPart>[];
};

const groupFields: Readonly<Record<TaskType, readonly (keyof GroupPart)[]>> = {
  k8s_resources: ["replicas", "resources", "affinity", "highAvailability", "rollingUpdate"],
  middleware_config: ["values"],
  storage_volume: ["storage"],
  version_upgrade: [],
};

const specFields: Readonly<Record<TaskType, readonly (keyof SpecPart)[]>> = {
  k8s_resources: ["stopped"],
  middleware_config: ["config", "tls"],
  storage_volume: [],
  version_upgrade: ["runtime", "plugin"],
};

/** Task types from P3 to P0. */
export const taskTypes = ["k8s_resources", "middleware_config", "storage_volume", "version_upgrade"] as const;

/** Desired specs of an App's Components, by name. */
export function desiredComponents(app: DeepReadonly<App>, plugin: Plugin): ReadonlyMap<string, ComponentSpec> {
  const { spec, metadata } = app;
  const shared = { ...plainOf(spec.config, plugin.configKey) };
  return new Map(
    plugin.components.map(({ name, groups }) => {
      const own = spec.components?.find((component) => component.name === name);
      const config = { ...shared, ...plainOf(own?.config, plugin.configKey) };
      const desired: DeepReadonly<ComponentSpec> = {
        appRef: { name: metadata.name ?? "", namespace: metadata.namespace ?? "" },
        plugin: spec.plugin,
        runtime: spec.runtime,
        ...(Object.keys(config).length > 0 ? { config } : {}),
        ...tlsOf(spec),
        groups: groups.map((group) => ({ replicas: 1, ...group, ...own?.groups?.find((each) => each.name === group.name) })),
        ...(spec.stopped ? { stopped: true } : {}),
      };
      return [name, draft(desired) as ComponentSpec];
    }),
  );
}

function tlsOf({ tls }: DeepReadonly<App>["spec"]): Pick<ComponentSpec, "tls"> {
  if (tls?.mode === undefined || tls.mode === "disabled") return {};
  return { tls: { mode: tls.mode, ...(tls.secretName === undefined ? {} : { secretName: tls.secretName }) } };
}

function plainOf(
  config: Readonly<Record<string, DeepReadonly<JsonValue>>> | undefined,
  key: string | undefined,
): Readonly<Record<string, DeepReadonly<JsonValue>>> {
  if (config === undefined) return {};
  if (key === undefined || !Object.hasOwn(config, key)) return config;
  const { [key]: inner, ...rest } = config;
  return { ...rest, ...(isJsonObject(inner) ? inner : {}) };
}

/** Extracts the part of a spec that one type of task changes. */
export function partOf(spec: DeepReadonly<ComponentSpec>, type: TaskType): SpecPart {
  const part: Record<string, unknown> = {};
  for (const field of specFields[type]) if (spec[field] !== undefined) part[field] = spec[field];
  if (groupFields[type].length > 0) {
    part.groups = spec.groups.map((group) => {
      const own: Record<string, unknown> = { name: group.name };
      for (const field of groupFields[type]) if (group[field] !== undefined) own[field] = group[field];
      return own;
    });
  }
  return draft(part) as SpecPart;
}

/** A spec with one part replaced. */
export function withPart(spec: DeepReadonly<ComponentSpec>, type: TaskType, part: DeepReadonly<SpecPart>): ComponentSpec {
  const result = draft(spec) as unknown as Record<string, unknown>;
  for (const field of specFields[type]) {
    delete result[field];
    if (part[field] !== undefined) result[field] = part[field];
  }
  if (part.groups !== undefined) {
    const before = spec.groups;
    const wanted = part.groups;
    result.groups = [
      ...before.map((group) => {
        const own: Record<string, unknown> = { ...group };
        const next = wanted.find((each) => each.name === group.name);
        for (const field of groupFields[type]) {
          delete own[field];
          if (next?.[field] !== undefined) own[field] = next[field];
        }
        return own;
      }),
      ...wanted.filter((group) => !before.some((each) => each.name === group.name)),
    ];
  }
  return draft(result) as unknown as ComponentSpec;
}

/** Human-readable differences between two parts. */
export function describeChange(type: TaskType, before: DeepReadonly<SpecPart>, after: DeepReadonly<SpecPart>): string {
  const changes: string[] = [];
  const note = (name: string, from: unknown, to: unknown): void => {
    if (!jsonEquals(from ?? null, to ?? null)) changes.push(`${name} ${show(from)} -> ${show(to)}`);
  };
  if (type === "version_upgrade") {
    note("version", `${before.runtime?.name} ${before.runtime?.version}`, `${after.runtime?.name} ${after.runtime?.version}`);
    note("plugin", `${before.plugin?.name} ${before.plugin?.version}`, `${after.plugin?.name} ${after.plugin?.version}`);
  }
  for (const name of keysOf(before.config, after.config)) note(name, before.config?.[name], after.config?.[name]);
  note("tls.mode", before.tls?.mode ?? "disabled", after.tls?.mode ?? "disabled");
  note("tls.secretName", before.tls?.secretName, after.tls?.secretName);
  note("stopped", before.stopped, after.stopped);
  for (const group of after.groups ?? []) {
    const old = before.groups?.find((each) => each.name === group.name);
    note(`${group.name}.replicas`, old?.replicas, group.replicas);
    note(`${group.name}.resources`, old?.resources, group.resources);
    note(`${group.name}.affinity`, old?.affinity, group.affinity);
    note(`${group.name}.highAvailability`, old?.highAvailability, group.highAvailability);
    note(`${group.name}.rollingUpdate`, old?.rollingUpdate, group.rollingUpdate);
    note(`${group.name}.storage`, old?.storage?.size, group.storage?.size);
    note(`${group.name}.storageClass`, old?.storage?.storageClass, group.storage?.storageClass);
    note(`${group.name}.values`, old?.values, group.values);
  }
  return changes.join(", ");
}

/** Sorted union of the keys of two maps. */
export function keysOf(a: object | undefined, b: object | undefined): readonly string[] {
  return [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])].sort();
}

function show(value: unknown): string {
  if (value === undefined || value === null) return "unset";
  return typeof value === "string" ? value : JSON.stringify(value);
}
