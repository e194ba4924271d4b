import { createHash } from "node:crypto";
import {
  controllerReference,
  type DeepReadonly,
  isJsonObject,
  type JsonObject,
  type KubernetesObject,
} from "@keelson/api-machinery";
import type { ConfigMapObject, PersistentVolumeClaimObject, PodObject } from "@keelson/api-machinery/kinds";
import { parse } from "yaml";
import type { Group } from "../api/group.ts";
import { accessSecretName, configHashAnnotation, labels, revisionAnnotation } from "../api/names.ts";
import { renderTemplate } from "../template/render-template.ts";
import { hasVersion, type Plugin, type TemplateKind } from "./plugin.ts";
import { checkPod, checkPorts } from "./check-rendered.ts";
import { PluginError } from "./read-plugin.ts";

/** A rendered Pod with its ConfigMap and claim. */
export interface Instance {
  readonly name: string;
  readonly ordinal: number;
  readonly pod: PodObject;
  /** Hash of everything that cannot change while the Pod exists. */
  readonly revision: string;
  readonly config: ConfigMapObject | undefined;
  readonly claim: PersistentVolumeClaimObject | undefined;
}

/** A rendered Group. */
export interface RenderedGroup {
  readonly instances: readonly Instance[];
  readonly services: readonly KubernetesObject[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly configHash: string;
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

/**
 * Renders a plugin's templates for a Group: Pods with their ConfigMaps and claims, and Services. Pure.
 *
 * **Errors**: a `TemplateError` with line and column, or a {@link PluginError} if the result is not a valid object.
 */
export function renderGroup(group: DeepReadonly<Group>, plugin: Plugin, agentCommand: readonly string[]): RenderedGroup {
  const { spec } = group;
  const app = group.metadata.labels?.[labels.app] ?? "";
  const name = group.metadata.name ?? "";
  const parameters = Object.fromEntries(
    Object.entries({ ...plugin.defaults, ...spec.config }).map(([key, value]) => [
      key,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
  const configHash = hashOf(parameters);
  const selectorLabels = { [labels.app]: app, [labels.group]: name };
  const ownLabels = { ...group.metadata.labels, ...selectorLabels };
  const imageVersion = Object.keys(plugin.images).find((version) => hasVersion([version], spec.runtime.version));
  const root = {
    Name: name,
    Namespace: group.metadata.namespace ?? "",
    App: app,
    Component: group.metadata.labels?.[labels.component] ?? "",
    Group: name,
    Replicas: spec.replicas,
    Runtime: { Name: spec.runtime.name, Version: spec.runtime.version },
    Images: plugin.images,
    Image: imageVersion === undefined ? "" : (plugin.images[imageVersion] ?? ""),
    Plugin: { Name: plugin.name, Version: plugin.version },
    Resources: spec.resources ?? {},
    Config: parameters,
    ConfigHash: configHash,
    Storage: spec.storage ?? {},
    Affinity: spec.affinity ?? {},
    Values: { ...plugin.values, ...spec.values },
    Labels: ownLabels,
    SelectorLabels: selectorLabels,
    Agent: { Command: agentCommand },
    AccessSecret: accessSecretName(app),
  };
  const render = (kind: TemplateKind, data: object): JsonObject[] =>
    plugin.templates
      .filter((each) => each.kind === kind)
      .flatMap(({ template }) => {
        const text = renderTemplate(template, data);
        // A template that renders to nothing omits its object.
        if (text.trim() === "") return [];
        let value: unknown;
        try {
          value = parse(text, { maxAliasCount: 100 });
        } catch (error) {
          throw new PluginError(`${template.name}: rendered text is not valid YAML: ${(error as Error).message}`);
        }
        if (!isJsonObject(value)) throw new PluginError(`${template.name}: rendered YAML must be a map`);
        return [value];
      });
  const complete = (value: JsonObject, kind: string, ownName: string, extra: object = {}): KubernetesObject => {
    const metadata = isJsonObject(value.metadata) ? value.metadata : {};
    return {
      ...value,
      apiVersion: "v1",
      kind,
      metadata: {
        ...metadata,
        name: ownName,
        namespace: root.Namespace,
        labels: { ...ownLabels, ...(isJsonObject(metadata.labels) ? metadata.labels : {}) } as Record<string, string>,
        ...extra,
      },
    };
  };
  const owner = { ownerReferences: [controllerReference(group)] };
  const instances = Array.from({ length: spec.stopped ? 0 : spec.replicas }, (_, ordinal): Instance => {
    const instance = `${name}-${ordinal}`;
    const data = { ...root, Instance: { Name: instance, Ordinal: ordinal } };
    const [pod] = render("Pod", data);
    if (pod === undefined) throw new PluginError("templates: no template of type Pod renders an object");
    checkPod(pod);
    const [config] = render("ConfigMap", data);
    const [claim] = spec.storage === undefined ? [] : render("PersistentVolumeClaim", data);
    const revision = hashOf({ spec: pod.spec, version: spec.runtime.version });
    return {
      name: instance,
      ordinal,
      revision,
      pod: complete(pod, "Pod", instance, { ...owner, annotations: { [revisionAnnotation]: revision } }) as PodObject,
      config:
        config &&
        complete(config, "ConfigMap", `${instance}-config`, { ...owner, annotations: { [configHashAnnotation]: configHash } }),
      // Claims have no owner: deleting an App by mistake keeps its data.
      claim: claim && (complete(claim, "PersistentVolumeClaim", `${instance}-data`) as PersistentVolumeClaimObject),
    };
  });
  const services = render("Service", root).map((service, index) => {
    checkPorts(isJsonObject(service.spec) ? service.spec.ports : undefined, "port", "Service: spec.ports");
    const serviceName = isJsonObject(service.metadata) ? service.metadata.name : undefined;
    return complete(service, "Service", typeof serviceName === "string" ? serviceName : `${name}-${index}`, owner);
  });
  return { instances, services, parameters, configHash, preferredPrimaries: spec.highAvailability?.preferredPrimaries ?? [] };
}
