import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import { Secret, Service } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { type CommandContext, formatResult } from "@keelson/operator";
import { App } from "../api/app.ts";
import { Group } from "../api/group.ts";
import { accessSecretName, authorityKey, authorityName, labels, passwordKeys } from "../api/names.ts";
import { PluginError } from "../plugin/read-plugin.ts";
import { keyOf } from "./app-flags.ts";
import { pluginOf } from "./find-plugin.ts";

interface Endpoint {
  readonly service: string;
  readonly host: string;
  readonly port: number;
}

/** `keelson app connect`: shows the addresses of an App's Services and where its password is. */
export async function showConnection(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  const app = await client.get(App, { namespace, name });
  const tls = await tlsOf(app, client);
  const { items } = await client.list(Service, { namespace, labelSelector: `${labels.app}=${name}` });
  const endpoints = items.flatMap(({ metadata, spec }): Endpoint[] => {
    const ports = spec?.ports ?? [];
    // Redis has its own port for TLS.
    const port = (tls === undefined ? undefined : ports.find((each) => each.name?.endsWith("-tls"))) ?? ports[0];
    const service = metadata.name ?? "";
    const hasAddress = spec?.clusterIP !== undefined && spec.clusterIP !== "None";
    const host = hasAddress ? (spec.clusterIP ?? "") : `${service}.${namespace}.svc`;
    return port === undefined ? [] : [{ service, host, port: port.port }];
  });
  if (endpoints.length === 0) {
    context.stderr.write(`App ${name} has no Services yet; see keelson app why ${name}\n`);
    return 1;
  }
  const secret = accessSecretName(name);
  const stored = context.flags["show-password"] === true ? await client.get(Secret, { namespace, name: secret }) : undefined;
  const read = (key: string): string => Buffer.from(stored?.data?.[key] ?? "", "base64").toString();
  const password = stored === undefined ? undefined : read(passwordKeys.current);
  const plugin = await pluginOf(client, app).catch((error: unknown) => {
    if (isNotFound(error) || error instanceof PluginError) return undefined;
    throw error;
  });
  // Without its own name, the default user is the one that sends a password only.
  const user = stored === undefined || plugin?.defaultLogin === undefined ? undefined : read(passwordKeys.login);
  const result = {
    endpoints,
    secret: {
      ...{ name: secret, key: passwordKeys.current },
      ...(plugin?.defaultLogin === undefined ? {} : { userKey: passwordKeys.login }),
    },
    ...(user === undefined || user === "" ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls }),
  };
  const describe = (): string => {
    const lines = endpoints.map(({ service, host, port }) => `${service}: ${host}:${port}`);
    if (tls !== undefined)
      lines.push(
        `TLS ${tls.mode === "require" ? "required" : "offered"}: authorities in key ${tls.key} of ConfigMap ${tls.configMap}`,
      );
    if (plugin?.defaultLogin !== undefined)
      lines.push(`user: ${result.user ?? `key ${passwordKeys.login} of Secret ${secret}, which changes with the password`}`);
    return `${[...lines, `password: ${password ?? `key password of Secret ${secret} (--show-password)`}`].join("\n")}\n`;
  };
  context.stdout.write(formatResult(context, result, describe));
  return 0;
}

/** How clients verify the programs. Undefined while no Pod has TLS. */
async function tlsOf(
  { metadata: { name = "", namespace } }: DeepReadonly<App>,
  client: Client,
): Promise<{ readonly mode: string; readonly configMap: string; readonly key: string } | undefined> {
  const { items } = await client.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  const mode = items.find(({ spec }) => spec.tls !== undefined)?.spec.tls?.mode;
  return mode && { mode, configMap: authorityName(name), key: authorityKey };
}
