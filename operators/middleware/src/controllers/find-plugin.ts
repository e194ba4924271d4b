import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { Cache } from "@keelson/controller";
import { pluginNamespace } from "../api/names.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { pluginConfigMapName, PluginError, readPlugin } from "../plugin/read-plugin.ts";

const read = new WeakMap<object, Plugin | { readonly problem: string }>();

/** The plugin of this name: from the namespace, else from the plugins' own; or why there is none. */
export function findPlugin(
  cache: Cache,
  namespace: string | undefined,
  wanted: { readonly name: string; readonly version: string },
): Plugin | { readonly problem: string } {
  const name = pluginConfigMapName(wanted.name, wanted.version);
  const configMap = cache.get(ConfigMap, { namespace, name }) ?? cache.get(ConfigMap, { namespace: pluginNamespace, name });
  if (configMap === undefined) {
    return { problem: `spec.plugin: there is no ConfigMap ${name} in ${namespace} or ${pluginNamespace}` };
  }
  const known = read.get(configMap);
  if (known !== undefined) return known;
  const plugin = readOrProblem(configMap, wanted);
  read.set(configMap, plugin);
  return plugin;
}

function readOrProblem(
  configMap: DeepReadonly<ConfigMapObject>,
  wanted: { readonly name: string; readonly version: string },
): Plugin | { readonly problem: string } {
  try {
    const plugin = readPlugin(configMap);
    if (plugin.name !== wanted.name || plugin.version !== wanted.version) {
      return { problem: `spec.plugin: the ConfigMap ${configMap.metadata.name} holds ${plugin.name} ${plugin.version}` };
    }
    return plugin;
  } catch (error) {
    if (error instanceof PluginError) return { problem: `plugin ${configMap.metadata.name}: ${error.message}` };
    throw error;
  }
}
