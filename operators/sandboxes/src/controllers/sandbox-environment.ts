import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import { ConfigMap, Secret } from "@keelson/api-machinery/kinds";
import type { Sandbox } from "../api/sandbox.ts";
import type { SandboxesContext } from "../runtime.ts";

/** The variables of a Sandbox, with the values that they refer to; or which of them is missing. **Errors**: those of the API. */
export async function environmentOf(
  sandbox: DeepReadonly<Sandbox>,
  { client, signal }: SandboxesContext,
): Promise<{ readonly env: Readonly<Record<string, string>> } | { readonly problem: string }> {
  const env: [string, string][] = [];
  const { namespace } = sandbox.metadata;
  for (const { name, value, valueFrom } of sandbox.spec.envs ?? []) {
    const from = valueFrom as
      | {
          secretKeyRef?: { name?: string; key: string; optional?: boolean };
          configMapKeyRef?: { name?: string; key: string; optional?: boolean };
        }
      | undefined;
    const reference = from?.secretKeyRef ?? from?.configMapKeyRef;
    if (reference === undefined) {
      env.push([name, value ?? ""]);
      continue;
    }
    const key = { namespace, name: reference.name ?? "" };
    try {
      const found = from?.secretKeyRef
        ? Buffer.from((await client.get(Secret, key, { signal })).data?.[reference.key] ?? "", "base64").toString("utf8")
        : (await client.get(ConfigMap, key, { signal })).data?.[reference.key];
      if (found !== undefined) env.push([name, found]);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      if (reference.optional !== true)
        return { problem: `envs ${name}: ${from?.secretKeyRef ? "Secret" : "ConfigMap"} ${reference.name} not found` };
    }
  }
  return { env: Object.fromEntries(env) };
}
