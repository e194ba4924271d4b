import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { Group } from "../api/group.ts";
import { labels } from "../api/names.ts";
import { RenderBudget } from "../template/render-budget.ts";
import { TemplateError } from "../template/template-error.ts";
import type { Plugin, PluginComponent } from "./plugin.ts";
import { documentKey, pluginConfigMapName, PluginError, pluginInSteps, readDocumentInSteps } from "./read-plugin.ts";
import { renderGroupInSteps } from "./render-group.ts";
import { runInSteps } from "./steps.ts";

/** Groups that are rendered at most, so that a plugin does not block the operator. */
const maxSamples = 8;
/** The API of another program at the start of a line. It is found without parsing, because the document may be long. */
const foreignVersion = /^apiVersion:[ \t]+["']?(?!middleware\.io\/)[a-z]/m;

/** Work of one check over all templates and samples. */
const checkLimits = { steps: 20_000, characters: 1_048_576, tokens: 40_000 } as const;

/**
 * Why a plugin cannot be used: its document or a template is invalid, or a template fails with the plugin's own defaults, for example
 * because of a missing key. Undefined if no problem was found, or the document is that of another program. Other events are handled between
 * its steps.
 */
export async function pluginProblem(
  configMap: DeepReadonly<ConfigMapObject>,
  agentCommand: readonly string[],
): Promise<string | undefined> {
  try {
    if (foreignVersion.test(configMap.data?.[documentKey] ?? "")) return undefined;
    const budget = new RenderBudget(checkLimits);
    const document = await runInSteps(readDocumentInSteps(configMap, budget));
    if (isForeign(document)) return undefined;
    const plugin = await runInSteps(pluginInSteps(configMap, document));
    const { name, version } = plugin;
    if (pluginConfigMapName(name, version) !== configMap.metadata.name)
      return `contains ${name} ${version}: the name of the ConfigMap must be ${pluginConfigMapName(name, version)}`;
    const samples = plugin.components.flatMap((component) =>
      component.groups.map((group) => sampleGroup(plugin, component, group)),
    );
    for (const group of samples.slice(0, maxSamples))
      await runInSteps(renderGroupInSteps(group, plugin, agentCommand, { isSample: true, budget }));
    return undefined;
  } catch (error) {
    if (error instanceof PluginError) return error.message;
    if (error instanceof TemplateError) return `template ${error.message}${remedyOf(error)}`;
    throw error;
  }
}

/** Whether a document names another API: other programs have plugins too. */
function isForeign(document: unknown): boolean {
  const apiVersion = isJsonObject(document) ? document.apiVersion : undefined;
  return typeof apiVersion === "string" && !apiVersion.startsWith("middleware.io/");
}

function remedyOf({ message }: TemplateError): string {
  if (!message.endsWith("key not found")) return "";
  return '; add it to defaultValues or defaultConfig, or use "default", "required" or "with"';
}

/** A Group with the plugin's defaults, and one Pod with a volume. */
function sampleGroup(
  plugin: Plugin,
  component: PluginComponent,
  group: PluginComponent["groups"][number],
): DeepReadonly<Group> {
  const [runtime] = plugin.runtimes;
  const name = `sample-${component.name}-${group.name}`;
  const own = {
    [labels.app]: "sample",
    [labels.component]: component.name,
    [labels.plugin]: plugin.name,
    [labels.pluginVersion]: plugin.version,
  };
  const { name: _, rollingUpdate: _held, ...part } = group;
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Group",
    metadata: { name, namespace: "default", uid: "sample", labels: own },
    spec: {
      storage: { size: "1Gi" },
      ...part,
      componentRef: { name: `sample-${component.name}` },
      pluginRef: plugin.configMap,
      plugin: { name: plugin.name, version: plugin.version },
      runtime: { name: runtime?.name ?? "sample", version: runtime?.versions.at(-1) ?? "1" },
      replicas: 1,
    },
  };
}
