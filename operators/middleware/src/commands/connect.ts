import { Secret, Service } from "@keelson/api-machinery/kinds";
import { type CommandContext, formatResult } from "@keelson/operator";
import { App } from "../api/app.ts";
import { accessSecretName, labels } from "../api/names.ts";
import { keyOf } from "./app-flags.ts";

interface Endpoint {
  readonly service: string;
  readonly host: string;
  readonly port: number;
}

/** `keelson app connect`: shows the addresses of an App's Services and where its password is. */
export async function showConnection(context: CommandContext): Promise<number> {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  await client.get(App, { namespace, name });
  const { items } = await client.list(Service, { namespace, labelSelector: `${labels.app}=${name}` });
  const endpoints = items.flatMap(({ metadata, spec }): Endpoint[] => {
    const [port] = spec?.ports ?? [];
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
  const password = stored === undefined ? undefined : Buffer.from(stored.data?.password ?? "", "base64").toString();
  const result = { endpoints, secret: { name: secret, key: "password" }, ...(password === undefined ? {} : { password }) };
  const describe = (): string => {
    const lines = endpoints.map(({ service, host, port }) => `${service}: ${host}:${port}`);
    return `${[...lines, `password: ${password ?? `key password of Secret ${secret} (--show-password)`}`].join("\n")}\n`;
  };
  context.stdout.write(formatResult(context, result, describe));
  return 0;
}
