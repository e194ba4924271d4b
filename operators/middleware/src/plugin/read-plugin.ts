import { type DeepReadonly, isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import { type Scenario, scenarios } from "../api/parts.ts";
import type { Template } from "../template/nodes.ts";
import { parseTemplate } from "../template/parse-template.ts";
import { TemplateError } from "../template/template-error.ts";
import { parseYamlInSteps, type TokenBudget } from "./parse-yaml.ts";
import { type ParameterClass, type Plugin, type TemplateKind, templateKinds } from "./plugin.ts";
import { runSteps, type Steps } from "./steps.ts";

/** An invalid plugin. The message names the field. */
export class PluginError extends Error {
  override readonly name = "PluginError";
  readonly code = "InvalidPlugin";
}

/** Key of a plugin's ConfigMap with its document. */
export const documentKey = "plugin.yaml";
const namePattern = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/;

/** Name of a plugin's ConfigMap, as in the original. */
export function pluginConfigMapName(name: string, version: string): string {
  return `${name}-v${version}`;
}

/** Whether a ConfigMap contains a plugin. */
export function isPlugin(configMap: DeepReadonly<ConfigMapObject>): boolean {
  return configMap.data !== undefined && Object.hasOwn(configMap.data, documentKey);
}

/**
 * Parses a plugin from its ConfigMap: the document in `plugin.yaml` and templates in other keys.
 *
 * **Errors**: a {@link PluginError} that names the field, including for a template that does not parse.
 */
export function readPlugin(configMap: DeepReadonly<ConfigMapObject>): Plugin {
  return runSteps(pluginInSteps(configMap, runSteps(readDocumentInSteps(configMap))));
}

/** Length of the longest document, in characters. */
const maxDocumentLength = 65_536;
const maxTemplates = 64;

/**
 * Parses the document of a plugin, which may be that of another program. `budget`: of a check.
 *
 * **Errors**: a {@link PluginError} if it is missing, too long or not valid YAML.
 */
export function* readDocumentInSteps({ data }: DeepReadonly<ConfigMapObject>, budget?: TokenBudget): Steps<unknown> {
  const field = `data["${documentKey}"]`;
  const text = data?.[documentKey];
  if (text === undefined) throw new PluginError(`${field}: required`);
  if (text.length > maxDocumentLength)
    throw new PluginError(`${field}: must have at most ${maxDocumentLength} characters, has ${text.length}`);
  try {
    return yield* parseYamlInSteps(text, budget);
  } catch (error) {
    throw new PluginError(`${field}: ${(error as Error).message}`);
  }
}

/** Like {@link readPlugin}, from its parsed document, with a step per template. */
export function* pluginInSteps(configMap: DeepReadonly<ConfigMapObject>, document: unknown): Steps<Plugin> {
  const root = object(document, documentKey);
  // Either `kind: Plugin` with a spec, as in the sibling chapters, or the spec alone.
  const spec = isJsonObject(root.spec) ? root.spec : root;
  const components = list(spec.components, "components").map((each, index) => {
    const component = object(each, `components[${index}]`);
    const groups = list(component.groups, `components[${index}].groups`).map((group, at) => {
      const value = object(group, `components[${index}].groups[${at}]`);
      return { ...value, name: partName(value.name, `components[${index}].groups[${at}].name`) };
    });
    if (groups.length === 0) throw new PluginError(`components[${index}].groups: must have at least one group`);
    unique(
      groups.map((group) => group.name),
      `components[${index}].groups`,
    );
    return {
      name: partName(component.name, `components[${index}].name`),
      groups,
      hasAgent: flag(component.agent, `components[${index}].agent`, true),
    };
  });
  if (components.length === 0) throw new PluginError("components: must have at least one component");
  unique(
    components.map((component) => component.name),
    "components",
  );
  return {
    name: requiredText(spec.name, "name"),
    version: requiredText(spec.version, "version"),
    configMap: { namespace: configMap.metadata.namespace ?? "", name: configMap.metadata.name ?? "" },
    runtimes: list(spec.runtimes, "runtimes").map((each, index) => {
      const runtime = object(each, `runtimes[${index}]`);
      return {
        name: requiredText(runtime.name, `runtimes[${index}].name`),
        versions: list(runtime.versions, `runtimes[${index}].versions`).map(String),
      };
    }),
    images: strings(spec.images, "images"),
    migrateFrom: readPairs(spec.compatibility, "migrateFrom"),
    stopFor: readPairs(spec.compatibility, "stopFor"),
    configKey: spec.configKey === undefined ? undefined : requiredText(spec.configKey, "configKey"),
    components,
    orders: readOrders(
      spec.orders,
      components.map((component) => component.name),
    ),
    parameters: Object.fromEntries(
      Object.entries(strings(spec.parameters, "parameters")).map(([name, kind]) => {
        if (!["hot", "cold", "forbidden"].includes(kind)) {
          throw new PluginError(`parameters.${name}: ${JSON.stringify(kind)} must be hot, cold or forbidden`);
        }
        return [name, kind as ParameterClass];
      }),
    ),
    defaults: strings(spec.defaultConfig, "defaultConfig"),
    warnings: list(spec.warnings, "warnings").map((each, index) => {
      const warning = object(each, `warnings[${index}]`);
      const parameters = object(warning.parameters, `warnings[${index}].parameters`);
      return {
        parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, String(value)])),
        message: requiredText(warning.message, `warnings[${index}].message`),
      };
    }),
    ...readUsers(
      spec.users,
      components.some((component) => component.hasAgent),
    ),
    hasTls: flag(spec.tls, "tls", false),
    values: object(spec.defaultValues ?? {}, "defaultValues"),
    templates: yield* readTemplates(spec.templates, configMap),
  };
}

function readPairs(compatibility: JsonValue | undefined, key: "migrateFrom" | "stopFor"): Plugin["migrateFrom"] {
  const pairs = object(object(compatibility ?? {}, "compatibility")[key] ?? {}, `compatibility.${key}`);
  return Object.fromEntries(
    Object.entries(pairs).map(([to, from]) => [to, list(from, `compatibility.${key}.${to}`).map(String)]),
  );
}

/** Parses `templates`. Each key is parsed once. */
function* readTemplates(value: JsonValue | undefined, { data }: DeepReadonly<ConfigMapObject>): Steps<Plugin["templates"]> {
  const entries = list(value, "templates");
  if (entries.length > maxTemplates)
    throw new PluginError(`templates: must have at most ${maxTemplates} entries, has ${entries.length}`);
  const parsed = new Map<string, Template>();
  const templates: Plugin["templates"][number][] = [];
  for (const [index, each] of entries.entries()) {
    yield;
    const entry = object(each, `templates[${index}]`);
    const kind = requiredText(entry.type, `templates[${index}].type`);
    if (!templateKinds.includes(kind as TemplateKind)) {
      throw new PluginError(`templates[${index}].type: ${JSON.stringify(kind)} must be one of ${templateKinds.join(", ")}`);
    }
    const key = requiredText(entry.key, `templates[${index}].key`);
    const source = data?.[key];
    if (source === undefined) throw new PluginError(`templates[${index}].key: the ConfigMap has no key ${JSON.stringify(key)}`);
    try {
      const template = parsed.get(key) ?? parseTemplate(key, source);
      parsed.set(key, template);
      templates.push({ kind: kind as TemplateKind, template });
    } catch (error) {
      if (error instanceof TemplateError) throw new PluginError(`templates[${index}]: ${error.message}`);
      throw error;
    }
  }
  return templates;
}

/** Parses `users`: whether the programs have users, or a map of what the controllers need to know about them. */
function readUsers(value: JsonValue | undefined, areAgentsRunning: boolean): Pick<Plugin, "hasUsers" | "defaultLogin"> {
  if (!areAgentsRunning) return { hasUsers: false };
  if (!isJsonObject(value)) return { hasUsers: flag(value, "users", undefined) };
  const unknown = Object.keys(value).find((key) => key !== "defaultLogin");
  if (unknown !== undefined) throw new PluginError(`users.${unknown}: unknown field; must be defaultLogin`);
  return { hasUsers: true, defaultLogin: requiredText(value["defaultLogin"], "users.defaultLogin") };
}

/** Parses `orders`. An element is a component, or a list of components that change concurrently. */
function readOrders(value: JsonValue | undefined, components: readonly string[]): Plugin["orders"] {
  const orders: Partial<Record<Scenario, readonly (readonly string[])[]>> = {};
  for (const [scenario, order] of Object.entries(object(value ?? {}, "orders"))) {
    if (!scenarios.includes(scenario as Scenario)) {
      throw new PluginError(`orders.${scenario}: unknown scenario; must be one of ${scenarios.join(", ")}`);
    }
    if (order === null) continue;
    const stages = list(order, `orders.${scenario}`).map((stage) =>
      Array.isArray(stage) ? stage.map(String) : [String(stage)],
    );
    const named = stages.flat();
    for (const name of named) {
      if (!components.includes(name)) throw new PluginError(`orders.${scenario}: unknown component ${JSON.stringify(name)}`);
    }
    unique(named, `orders.${scenario}`);
    const rest = components.filter((component) => !named.includes(component));
    if (stages.length > 0) orders[scenario as Scenario] = rest.length > 0 ? [...stages, rest] : stages;
  }
  return orders;
}

function object(value: unknown, field: string): JsonObject {
  if (!isJsonObject(value)) throw new PluginError(`${field}: must be a map`);
  return value;
}

function list(value: unknown, field: string): readonly JsonValue[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new PluginError(`${field}: must be a list`);
  return value as readonly JsonValue[];
}

function requiredText(value: unknown, field: string): string {
  if ((typeof value !== "string" && typeof value !== "number") || value === "") throw new PluginError(`${field}: required`);
  return String(value);
}

function flag<T>(value: unknown, field: string, fallback: T): boolean | T {
  if (value === undefined) return fallback;
  if (typeof value !== "boolean") throw new PluginError(`${field}: ${JSON.stringify(value)} must be true or false`);
  return value;
}

function partName(value: unknown, field: string): string {
  const name = requiredText(value, field);
  if (!namePattern.test(name))
    throw new PluginError(`${field}: ${JSON.stringify(name)} must be at most 40 characters of a-z, 0-9 and -`);
  return name;
}

function strings(value: unknown, field: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object(value ?? {}, field)).map(([key, each]) => [key, requiredText(each, `${field}.${key}`)]),
  );
}

function unique(names: readonly string[], field: string): void {
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new PluginError(`${field}: ${JSON.stringify(duplicate)} must be unique`);
}
