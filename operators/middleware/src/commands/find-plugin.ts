import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { App } from "../api/app.ts";
import { pluginNamespace } from "../api/names.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { pluginConfigMapName, readPlugin } from "../plugin/read-plugin.ts";

/** The plugin of an App, in its namespace or the shared one. Rejects with `NotFound`, or with a `PluginError` if it is not valid. */
export async function pluginOf(client: Client, app: DeepReadonly<App>): Promise<Plugin> {
  const name = pluginConfigMapName(app.spec.plugin.name, app.spec.plugin.version);
  try {
    return readPlugin(await client.get(ConfigMap, { namespace: app.metadata.namespace, name }));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return readPlugin(await client.get(ConfigMap, { namespace: pluginNamespace, name }));
  }
}
