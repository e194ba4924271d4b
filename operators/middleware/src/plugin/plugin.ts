import type { DeepReadonly, JsonValue } from "@keelson/api-machinery";
import type { GroupPart, Scenario } from "../api/parts.ts";
import type { Template } from "../template/nodes.ts";

/** How a parameter takes effect. `forbidden`: not by parameter, as it would break the topology or the volume. */
export type ParameterClass = "hot" | "cold" | "forbidden";

/** Kinds that a plugin's templates make. Services are made once a group, the others once a Pod. */
export const templateKinds = ["Pod", "ConfigMap", "PersistentVolumeClaim", "Service"] as const;
export type TemplateKind = (typeof templateKinds)[number];

/** A plugin, read and checked: what knows one kind of middleware. */
export interface Plugin {
  readonly name: string;
  readonly version: string;
  /** Namespace and name of the ConfigMap that it is in. */
  readonly configMap: { readonly namespace: string; readonly name: string };
  readonly runtimes: readonly { readonly name: string; readonly versions: readonly string[] }[];
  readonly images: Readonly<Record<string, string>>;
  /** To which version one may go from which others. */
  readonly migrateFrom: Readonly<Record<string, readonly string[]>>;
  /** The key under an App's `spec.config` that has the parameters. */
  readonly configKey: string | undefined;
  readonly components: readonly { readonly name: string; readonly groups: readonly DeepReadonly<GroupPart>[] }[];
  /** Stages of components by scenario; a scenario without one has all components in one stage. */
  readonly orders: Readonly<Partial<Record<Scenario, readonly (readonly string[])[]>>>;
  /** Parameters whose class is known beforehand. The program itself has the last word. */
  readonly parameters: Readonly<Record<string, ParameterClass>>;
  /** Parameters that hold where an App does not say. */
  readonly defaults: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, JsonValue>>;
  readonly templates: readonly { readonly kind: TemplateKind; readonly template: Template }[];
}

/** Whether a list of versions has one: `7.0` stands for all of `7.0.*`. */
export function hasVersion(versions: readonly string[], version: string): boolean {
  return versions.some((each) => version === each || version.startsWith(`${each}.`));
}
