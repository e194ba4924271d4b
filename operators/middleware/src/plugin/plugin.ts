import type { DeepReadonly, JsonValue } from "@keelson/api-machinery";
import type { GroupPart, Scenario } from "../api/parts.ts";
import type { Template } from "../template/nodes.ts";

/** How a parameter takes effect. `forbidden`: users must not set it, because it would break the topology or the volume. */
export type ParameterClass = "hot" | "cold" | "forbidden";

/** Kinds of a plugin's templates. Services are rendered once per group, the others once per Pod. */
export const templateKinds = ["Pod", "ConfigMap", "PersistentVolumeClaim", "Service"] as const;
/** Kind of a plugin's template: one of {@link templateKinds}. */
export type TemplateKind = (typeof templateKinds)[number];

/** A component of a {@link Plugin}. */
export interface PluginComponent {
  readonly name: string;
  readonly groups: readonly DeepReadonly<GroupPart>[];
  /** Whether an agent runs in every Pod. Without one, Pods are stateless: they have no roles, and readiness decides whether they serve. */
  readonly hasAgent: boolean;
}

/** A parsed and validated plugin, which describes one kind of middleware. */
export interface Plugin {
  readonly name: string;
  readonly version: string;
  /** Namespace and name of the plugin's ConfigMap. */
  readonly configMap: { readonly namespace: string; readonly name: string };
  readonly runtimes: readonly { readonly name: string; readonly versions: readonly string[] }[];
  readonly images: Readonly<Record<string, string>>;
  /** Supported upgrades: target version to source versions. */
  readonly migrateFrom: VersionPairs;
  /**
   * Upgrades for which all Pods of a Group are stopped, because its programs do not replicate between these versions: target version to source
   * versions.
   */
  readonly stopFor: VersionPairs;
  /** Key under an App's `spec.config` that contains the parameters. */
  readonly configKey: string | undefined;
  readonly components: readonly PluginComponent[];
  /** Stages of components by scenario. Default: all components in one stage. */
  readonly orders: Readonly<Partial<Record<Scenario, readonly (readonly string[])[]>>>;
  /** Parameters whose class is known in advance. The program decides about the others. */
  readonly parameters: Readonly<Record<string, ParameterClass>>;
  /** Default parameters. */
  readonly defaults: Readonly<Record<string, string>>;
  /** Combinations of parameters to warn about. */
  readonly warnings: readonly { readonly parameters: Readonly<Record<string, string>>; readonly message: string }[];
  /** Whether the programs have users. Undefined: the agents decide. */
  readonly hasUsers: boolean | undefined;
  /** First login of the default user, for programs with one password per login. Undefined: users have several passwords. */
  readonly defaultLogin?: string;
  /** Whether its Pods support TLS. */
  readonly hasTls: boolean;
  readonly values: Readonly<Record<string, JsonValue>>;
  readonly templates: readonly { readonly kind: TemplateKind; readonly template: Template }[];
}

/** Whether an agent runs in the Pods of a component. */
export function hasAgent(plugin: Plugin, component: string): boolean {
  return plugin.components.find(({ name }) => name === component)?.hasAgent ?? true;
}

/** Versions by the versions that precede them. */
export type VersionPairs = Readonly<Record<string, readonly string[]>>;

/** Whether pairs of versions contain the change from a version to another. */
export function hasPair(pairs: VersionPairs, from: string, to: string): boolean {
  return Object.entries(pairs).some(([target, sources]) => hasVersion([target], to) && hasVersion(sources, from));
}

/** Whether a list of versions matches a version. `7.0` matches `7.0.*`. */
export function hasVersion(versions: readonly string[], version: string): boolean {
  return versions.some((each) => version === each || version.startsWith(`${each}.`));
}
