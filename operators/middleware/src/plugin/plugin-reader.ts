import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { Cache } from "@keelson/controller";
import { pluginNamespace } from "../api/names.ts";
import type { Plugin } from "./plugin.ts";
import { pluginConfigMapName, PluginError, readPlugin } from "./read-plugin.ts";

/** A plugin, or why it cannot be used. */
export type FoundPlugin = Plugin | { readonly problem: string };

/** Finds plugins in the cache. Each version of a ConfigMap is parsed once. */
export class PluginReader {
  readonly #parsed = new WeakMap<object, FoundPlugin>();

  /** The plugin of this name and version in the App's namespace, or else in {@link pluginNamespace}. */
  find(cache: Cache, namespace: string | undefined, wanted: { readonly name: string; readonly version: string }): FoundPlugin {
    const name = pluginConfigMapName(wanted.name, wanted.version);
    const configMap = cache.get(ConfigMap, { namespace, name }) ?? cache.get(ConfigMap, { namespace: pluginNamespace, name });
    if (configMap === undefined) {
      return { problem: `spec.plugin: ConfigMap ${name} not found in ${namespace} or ${pluginNamespace}` };
    }
    const parsed = this.#parsed.get(configMap) ?? parse(configMap, wanted);
    this.#parsed.set(configMap, parsed);
    return parsed;
  }
}

function parse(
  configMap: DeepReadonly<ConfigMapObject>,
  wanted: { readonly name: string; readonly version: string },
): FoundPlugin {
  try {
    const plugin = readPlugin(configMap);
    if (plugin.name === wanted.name && plugin.version === wanted.version) return plugin;
    return { problem: `spec.plugin: ConfigMap ${configMap.metadata.name} contains ${plugin.name} ${plugin.version}` };
  } catch (error) {
    if (error instanceof PluginError) return { problem: `plugin ${configMap.metadata.name}: ${error.message}` };
    throw error;
  }
}
