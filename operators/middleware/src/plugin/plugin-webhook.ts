import { type DeepReadonly, isJsonObject, jsonEquals } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { defineWebhook, type KindWebhooks } from "@keelson/controller/webhooks";
import { parse } from "yaml";
import { pluginProblem } from "./check-plugin.ts";
import { documentKey } from "./read-plugin.ts";

/**
 * Rejects broken plugins when their ConfigMaps are created or changed. The API server sends only ConfigMaps that look like plugins by name
 * and key. If the operator does not respond they are admitted, so that it never blocks ConfigMaps, and Apps report the problem.
 */
export function createPluginWebhook(agentCommand: readonly string[]): KindWebhooks {
  const validate = (configMap: DeepReadonly<ConfigMapObject>): readonly StatusCause[] => {
    if (isForeign(configMap)) return [];
    const problem = pluginProblem(configMap, agentCommand);
    return problem === undefined ? [] : [invalidCause("data", documentKey, problem)];
  };
  return defineWebhook<ConfigMapObject>({
    for: ConfigMap,
    name: "plugins.middleware.io",
    failurePolicy: "Ignore",
    timeoutSeconds: 5,
    matchConditions: [
      {
        name: "is-plugin",
        expression: `has(object.metadata.name) && object.metadata.name.matches('-v[0-9]') && has(object.data) && '${documentKey}' in object.data`,
      },
    ],
    validate: {
      create: validate,
      // An update that changes neither the document nor a template, such as one of a label, must always be possible.
      update: (configMap, old) => (jsonEquals(configMap.data, old.data) ? [] : validate(configMap)),
    },
  });
}

/** Whether the document names another API: other programs have plugins too. */
function isForeign({ data }: DeepReadonly<ConfigMapObject>): boolean {
  try {
    const document: unknown = parse(data?.[documentKey] ?? "", { maxAliasCount: 100 });
    const apiVersion = isJsonObject(document) ? document.apiVersion : undefined;
    return typeof apiVersion === "string" && !apiVersion.startsWith("middleware.io/");
  } catch {
    return false;
  }
}
