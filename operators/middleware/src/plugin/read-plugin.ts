import { type DeepReadonly, isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import { parse } from "yaml";
import { type Scenario, scenarios } from "../api/parts.ts";
import { parseTemplate } from "../template/parse-template.ts";
import { TemplateError } from "../template/template-error.ts";
import { type ParameterClass, type Plugin, type TemplateKind, templateKinds } from "./plugin.ts";

/** What is wrong with a plugin; the message names the field. */
export class PluginError extends Error {
  override readonly name = "PluginError";
  readonly code = "InvalidPlugin";
}

const documentKey = "plugin.yaml";
const namePattern = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/;

/** Name of the ConfigMap of a plugin, as the original has it. */
export function pluginConfigMapName(name: string, version: string): string {
  return `${name}-v${version}`;
}

/** Whether a ConfigMap holds a plugin. */
export function isPlugin(configMap: DeepReadonly<ConfigMapObject>): boolean {
  return configMap.data !== undefined && Object.hasOwn(configMap.data, documentKey);
}

/**
 * Reads a plugin from its ConfigMap: the document in `plugin.yaml`, templates in the other keys.
 *
 * **Errors**: a {@link PluginError} that names the field, also for a template that does not parse.
 */
export function readPlugin(configMap: DeepReadonly<ConfigMapObject>): Plugin {
  const text = configMap.data?.[documentKey];
  if (text === undefined) throw new PluginError(`data: ${documentKey} is missing`);
  let document: unknown;
  try {
    document = parse(text, { maxAliasCount: 100 });
  } catch (error) {
    throw new PluginError(`data["${documentKey}"]: ${(error as Error).message}`);
  }
  const root = object(document, documentKey);
  // `kind: Plugin` with a spec, as the sibling chapters show it, or the spec alone.
  const spec = isJsonObject(root.spec) ? root.spec : root;
  const components = list(spec.components, "components").map((each, index) => {
    const component = object(each, `components[${index}]`);
    const groups = list(component.groups, `components[${index}].groups`).map((group, at) => {
      const value = object(group, `components[${index}].groups[${at}]`);
      return { ...value, name: partName(value.name, `components[${index}].groups[${at}].name`) };
    });
    if (groups.length === 0) throw new PluginError(`components[${index}].groups: at least one is needed`);
    unique(
      groups.map((group) => group.name),
      `components[${index}].groups`,
    );
    return { name: partName(component.name, `components[${index}].name`), groups };
  });
  if (components.length === 0) throw new PluginError("components: at least one is needed");
  unique(
    components.map((component) => component.name),
    "components",
  );
  return {
    name: text1(spec.name, "name"),
    version: text1(spec.version, "version"),
    configMap: { namespace: configMap.metadata.namespace ?? "", name: configMap.metadata.name ?? "" },
    runtimes: list(spec.runtimes, "runtimes").map((each, index) => {
      const runtime = object(each, `runtimes[${index}]`);
      return {
        name: text1(runtime.name, `runtimes[${index}].name`),
        versions: list(runtime.versions, `runtimes[${index}].versions`).map(String),
      };
    }),
    images: strings(spec.images, "images"),
    migrateFrom: Object.fromEntries(
      Object.entries(
        object(object(spec.compatibility ?? {}, "compatibility").migrateFrom ?? {}, "compatibility.migrateFrom"),
      ).map(([to, from]) => [to, list(from, `compatibility.migrateFrom.${to}`).map(String)]),
    ),
    configKey: spec.configKey === undefined ? undefined : text1(spec.configKey, "configKey"),
    components,
    orders: readOrders(
      spec.orders,
      components.map((component) => component.name),
    ),
    parameters: Object.fromEntries(
      Object.entries(strings(spec.parameters, "parameters")).map(([name, kind]) => {
        if (!["hot", "cold", "forbidden"].includes(kind)) {
          throw new PluginError(`parameters.${name}: ${JSON.stringify(kind)} has to be hot, cold or forbidden`);
        }
        return [name, kind as ParameterClass];
      }),
    ),
    defaults: strings(spec.defaultConfig, "defaultConfig"),
    values: object(spec.defaultValues ?? {}, "defaultValues"),
    templates: list(spec.templates, "templates").map((each, index) => {
      const template = object(each, `templates[${index}]`);
      const kind = text1(template.type, `templates[${index}].type`);
      if (!templateKinds.includes(kind as TemplateKind)) {
        throw new PluginError(`templates[${index}].type: ${JSON.stringify(kind)} has to be one of ${templateKinds.join(", ")}`);
      }
      const key = text1(template.key, `templates[${index}].key`);
      const source = configMap.data?.[key];
      if (source === undefined) throw new PluginError(`templates[${index}].key: the ConfigMap has no ${JSON.stringify(key)}`);
      try {
        return { kind: kind as TemplateKind, template: parseTemplate(key, source) };
      } catch (error) {
        if (error instanceof TemplateError) throw new PluginError(`templates[${index}]: ${error.message}`);
        throw error;
      }
    }),
  };
}

/** An element is a component, or a list of components that go together. */
function readOrders(value: JsonValue | undefined, components: readonly string[]): Plugin["orders"] {
  const orders: Partial<Record<Scenario, readonly (readonly string[])[]>> = {};
  for (const [scenario, order] of Object.entries(object(value ?? {}, "orders"))) {
    if (!scenarios.includes(scenario as Scenario)) {
      throw new PluginError(`orders.${scenario}: there is no such scenario; there are ${scenarios.join(", ")}`);
    }
    if (order === null) continue;
    const stages = list(order, `orders.${scenario}`).map((stage) =>
      Array.isArray(stage) ? stage.map(String) : [String(stage)],
    );
    const named = stages.flat();
    for (const name of named) {
      if (!components.includes(name))
        throw new PluginError(`orders.${scenario}: there is no component ${JSON.stringify(name)}`);
    }
    unique(named, `orders.${scenario}`);
    const rest = components.filter((component) => !named.includes(component));
    if (stages.length > 0) orders[scenario as Scenario] = rest.length > 0 ? [...stages, rest] : stages;
  }
  return orders;
}

function object(value: unknown, field: string): JsonObject {
  if (!isJsonObject(value)) throw new PluginError(`${field}: has to be a map`);
  return value;
}

function list(value: unknown, field: string): readonly JsonValue[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new PluginError(`${field}: has to be a list`);
  return value as readonly JsonValue[];
}

function text1(value: unknown, field: string): string {
  if ((typeof value !== "string" && typeof value !== "number") || value === "") throw new PluginError(`${field}: is missing`);
  return String(value);
}

function partName(value: unknown, field: string): string {
  const name = text1(value, field);
  if (!namePattern.test(name)) throw new PluginError(`${field}: ${JSON.stringify(name)} has to be up to 40 of a-z, 0-9 and -`);
  return name;
}

function strings(value: unknown, field: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object(value ?? {}, field)).map(([key, each]) => [key, text1(each, `${field}.${key}`)]),
  );
}

function unique(names: readonly string[], field: string): void {
  const double = names.find((name, index) => names.indexOf(name) !== index);
  if (double !== undefined) throw new PluginError(`${field}: ${JSON.stringify(double)} is there twice`);
}
