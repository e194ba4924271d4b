import { createHash } from "node:crypto";
import {
  controllerReference,
  type DeepReadonly,
  isJsonObject,
  type JsonObject,
  type KubernetesObject,
} from "@keelson/api-machinery";
import type { ConfigMapObject, PersistentVolumeClaimObject, PodObject } from "@keelson/api-machinery/kinds";
import type { Group } from "../api/group.ts";
import {
  accessSecretName,
  certificateSecretName,
  configHashAnnotation,
  labels,
  revisionAnnotation,
  tlsAnnotation,
  versionAnnotation,
} from "../api/names.ts";
import type { RenderBudget } from "../template/render-budget.ts";
import { type RenderTemplateOptions, renderTemplate } from "../template/render-template.ts";
import { hasAgent, hasVersion, type Plugin, type TemplateKind, type VersionPairs } from "./plugin.ts";
import { parseYamlInSteps } from "./parse-yaml.ts";
import { checkPod, checkPorts } from "./check-rendered.ts";
import { PluginError } from "./read-plugin.ts";
import { type Rollout, withRollout } from "./rollout.ts";
import { runSteps, type Steps } from "./steps.ts";

/** A rendered Pod with its ConfigMap and claim. */
export interface Instance {
  readonly name: string;
  readonly ordinal: number;
  readonly pod: PodObject;
  /** Hash of everything that cannot change while the Pod exists. */
  readonly revision: string;
  readonly config: ConfigMapObject | undefined;
  readonly claim: PersistentVolumeClaimObject | undefined;
  /** Version of the program. */
  readonly version: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly configHash: string;
  /** Whether the partition holds the Pod at the last complete rollout, which differs from the spec. */
  readonly isHeld: boolean;
}

/** A rendered Group. */
export interface RenderedGroup {
  readonly instances: readonly Instance[];
  readonly services: readonly KubernetesObject[];
  /** Whether an agent runs in every Pod. */
  readonly hasAgents: boolean;
  /** Changes of the version for which all Pods are stopped. */
  readonly stopFor: VersionPairs;
  /** Ordinals of Pods in order of preference. */
  readonly preferredPrimaries: readonly number[];
}

/** A short hash of a value, independent of key order. */
export function hashOf(value: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify(sorted(value)) ?? "")
    .digest("hex")
    .slice(0, 16);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, sorted(each)]),
  );
}

/** Options of {@link renderGroup}. */
interface RenderOptions {
  /** What Pods below the partition are rendered from. Default: the Group. */
  readonly held?: HeldRollout | undefined;
  /** Whether the Group is an example, which may lack required values. */
  readonly isSample?: boolean;
  /** Limits the work of several Groups. Default: no limit. */
  readonly budget?: RenderBudget | undefined;
}

/** The last complete rollout of a Group whose spec differs from it, and its plugin. */
export interface HeldRollout {
  readonly rollout: DeepReadonly<Rollout>;
  readonly plugin: Plugin;
}

/**
 * Renders a plugin's templates for a Group: Pods with their ConfigMaps and claims, and Services. Pure.
 *
 * **Errors**: a `TemplateError` with line and column, or a {@link PluginError} if the result is not a valid object.
 */
export function renderGroup(
  group: DeepReadonly<Group>,
  plugin: Plugin,
  agentCommand: readonly string[],
  options: RenderOptions = {},
): RenderedGroup {
  return runSteps(renderGroupInSteps(group, plugin, agentCommand, options));
}

/** Like {@link renderGroup}, with steps for each template. */
export function* renderGroupInSteps(
  group: DeepReadonly<Group>,
  plugin: Plugin,
  agentCommand: readonly string[],
  { held, isSample = false, budget }: RenderOptions,
): Steps<RenderedGroup> {
  const { spec } = group;
  const renderer = new GroupRenderer(group, plugin, agentCommand, { isSample, budget });
  const old = held && new GroupRenderer(withRollout(group, held.rollout), held.plugin, agentCommand, { isSample, budget });
  const partition = spec.rollingUpdate?.partition ?? 0;
  const instances: Instance[] = [];
  for (let ordinal = 0; ordinal < (spec.stopped ? 0 : spec.replicas); ordinal++) {
    const isHeld = old !== undefined && ordinal < partition;
    instances.push({ ...(yield* (isHeld ? old : renderer).instance(ordinal)), isHeld });
  }
  return {
    instances,
    services: yield* renderer.services(),
    hasAgents: renderer.hasAgents,
    stopFor: plugin.stopFor,
    preferredPrimaries: spec.highAvailability?.preferredPrimaries ?? [],
  };
}

/** Renders the objects of one revision of a Group. */
class GroupRenderer {
  readonly hasAgents: boolean;
  readonly #group: DeepReadonly<Group>;
  readonly #plugin: Plugin;
  readonly #parameters: Readonly<Record<string, string>>;
  readonly #configHash: string;
  readonly #selectorLabels: Readonly<Record<string, string>>;
  readonly #root: object;
  readonly #options: RenderTemplateOptions;

  constructor(group: DeepReadonly<Group>, plugin: Plugin, agentCommand: readonly string[], options: RenderTemplateOptions) {
    this.#options = options;
    const { spec } = group;
    const app = group.metadata.labels?.[labels.app] ?? "";
    const component = group.metadata.labels?.[labels.component] ?? "";
    const name = group.metadata.name ?? "";
    this.#group = group;
    this.#plugin = plugin;
    this.hasAgents = hasAgent(plugin, component);
    this.#parameters = Object.fromEntries(
      Object.entries({ ...plugin.defaults, ...spec.config }).map(([key, value]) => [
        key,
        typeof value === "string" ? value : JSON.stringify(value),
      ]),
    );
    this.#configHash = hashOf(this.#parameters);
    this.#selectorLabels = { [labels.app]: app, [labels.group]: name };
    const imageVersion = Object.keys(plugin.images).find((version) => hasVersion([version], spec.runtime.version));
    this.#root = {
      Name: name,
      Namespace: group.metadata.namespace ?? "",
      App: app,
      Component: component,
      Group: name,
      Replicas: spec.replicas,
      Runtime: { Name: spec.runtime.name, Version: spec.runtime.version },
      Images: plugin.images,
      Image: imageVersion === undefined ? "" : (plugin.images[imageVersion] ?? ""),
      Plugin: { Name: plugin.name, Version: plugin.version },
      Resources: spec.resources ?? {},
      Config: this.#parameters,
      ConfigHash: this.#configHash,
      Storage: spec.storage ?? {},
      Affinity: spec.affinity ?? {},
      Values: { ...plugin.values, ...spec.values },
      Labels: this.#labels(),
      SelectorLabels: this.#selectorLabels,
      Agent: { Command: agentCommand },
      AccessSecret: accessSecretName(app),
      Tls: { Mode: spec.tls?.mode ?? "disabled", Secret: spec.tls?.secretName ?? certificateSecretName(app) },
    };
  }

  /** A Pod with its ConfigMap and claim. */
  *instance(ordinal: number): Steps<Omit<Instance, "isHeld">> {
    const { spec } = this.#group;
    const name = `${this.#group.metadata.name ?? ""}-${ordinal}`;
    const data = { ...this.#root, Instance: { Name: name, Ordinal: ordinal } };
    const [pod] = yield* this.#render("Pod", data);
    if (pod === undefined) throw new PluginError("templates: no template of type Pod renders an object");
    checkPod(pod, this.hasAgents, this.#options.isSample ?? false);
    const [config] = yield* this.#render("ConfigMap", data);
    const [claim] = spec.storage === undefined ? [] : yield* this.#render("PersistentVolumeClaim", data);
    const { version } = spec.runtime;
    // Without an agent only a new Pod reads a new configuration.
    const revision = hashOf({ spec: pod.spec, version, ...(this.hasAgents ? {} : { config: config?.data ?? null }) });
    const annotations = {
      [revisionAnnotation]: revision,
      ...(this.hasAgents ? {} : { [versionAnnotation]: version }),
      ...(spec.tls === undefined ? {} : { [tlsAnnotation]: spec.tls.mode }),
    };
    return {
      ...{ name, ordinal, revision, version },
      parameters: this.#parameters,
      configHash: this.#configHash,
      pod: this.#complete(pod, "Pod", name, { ...this.#owner(), annotations }) as PodObject,
      config:
        config &&
        this.#complete(config, "ConfigMap", `${name}-config`, {
          ...this.#owner(),
          annotations: { [configHashAnnotation]: this.#configHash },
        }),
      // Claims have no owner: deleting an App by mistake keeps its data.
      claim: claim && (this.#complete(claim, "PersistentVolumeClaim", `${name}-data`) as PersistentVolumeClaimObject),
    };
  }

  *services(): Steps<readonly KubernetesObject[]> {
    const services = yield* this.#render("Service", this.#root);
    return services.map((service, index) => {
      checkPorts(isJsonObject(service.spec) ? service.spec.ports : undefined, "port", "Service: spec.ports");
      const own = isJsonObject(service.metadata) ? service.metadata.name : undefined;
      const name = typeof own === "string" ? own : `${this.#group.metadata.name ?? ""}-${index}`;
      const annotations = { [revisionAnnotation]: hashOf(service.spec) };
      return this.#complete(service, "Service", name, { ...this.#owner(), annotations });
    });
  }

  #owner(): object {
    return { ownerReferences: [controllerReference(this.#group)] };
  }

  #labels(): Readonly<Record<string, string>> {
    return { ...this.#group.metadata.labels, ...this.#selectorLabels };
  }

  *#render(kind: TemplateKind, data: object): Steps<readonly JsonObject[]> {
    const objects: JsonObject[] = [];
    for (const { template } of this.#plugin.templates.filter((each) => each.kind === kind)) {
      yield;
      const text = renderTemplate(template, data, this.#options);
      // A template that renders to nothing omits its object.
      if (text.trim() === "") continue;
      const value = yield* parseRendered(template.name, text, this.#options.budget);
      if (!isJsonObject(value)) throw new PluginError(`${template.name}: rendered YAML must be a map`);
      objects.push(value);
    }
    return objects;
  }

  #complete(value: JsonObject, kind: string, name: string, extra: object = {}): KubernetesObject {
    const metadata = isJsonObject(value.metadata) ? value.metadata : {};
    const own = isJsonObject(metadata.labels) ? metadata.labels : {};
    return {
      ...value,
      apiVersion: "v1",
      kind,
      metadata: {
        ...metadata,
        name,
        namespace: this.#group.metadata.namespace ?? "",
        labels: { ...this.#labels(), ...own } as Record<string, string>,
        ...extra,
      },
    };
  }
}

function* parseRendered(name: string, text: string, budget: RenderBudget | undefined): Steps<unknown> {
  try {
    return yield* parseYamlInSteps(text, budget);
  } catch (error) {
    throw new PluginError(`${name}: rendered text is not valid YAML: ${(error as Error).message}`);
  }
}
