import { isJsonObject } from "@keelson/api-machinery";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Credentials, CredentialSource } from "../transport/credentials.ts";
import { ExecCredentials } from "./exec-credentials.ts";
import type { HttpTransportOptions } from "../transport/http-transport.ts";
import type { Impersonation } from "../transport/impersonation.ts";
import {
  booleanField,
  fieldError,
  type Kubeconfig,
  KubeconfigError,
  type KubeconfigEntry,
  stringField,
  stringsField,
} from "./kubeconfig.ts";
import { TokenFile } from "./token-file.ts";

/** How to reach a cluster, from a context of a kubeconfig or from a Pod's service account. */
export interface Connection {
  /** The context's name; `in-cluster` for a service account. */
  readonly context: string;
  /** The namespace of the context. Default: `default`. */
  readonly namespace: string;
  readonly transport: HttpTransportOptions;
}

/** The environment that connections are read from. */
export interface ConnectionEnvironment {
  readonly clock?: Clock;
  /** Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * The connection of a context in a kubeconfig. Default: its current context.
 *
 * **Errors**: {@link KubeconfigError} with the file and the field.
 */
export async function connectionOf(
  config: Kubeconfig,
  name: string | undefined,
  { clock = systemClock, env = process.env }: ConnectionEnvironment = {},
): Promise<Connection> {
  const files = config.files.join(", ");
  const chosen = name ?? config.currentContext;
  if (chosen === undefined) throw new KubeconfigError(`kubeconfig ${files}: current-context is not set; select a context`);
  const context = config.contexts.get(chosen);
  if (context === undefined) {
    const known = [...config.contexts.keys()].join(", ") || "none";
    throw new KubeconfigError(`kubeconfig ${files}: context ${JSON.stringify(chosen)} not found (available: ${known})`);
  }
  const cluster = referencedEntry(context, "cluster", config.clusters);
  if (cluster === undefined) throw fieldError(context, "cluster", "is missing");
  const user = referencedEntry(context, "user", config.users);
  return {
    context: chosen,
    namespace: stringField(context, "namespace") ?? "default",
    transport: {
      ...(await clusterOptions(cluster)),
      ...(user === undefined ? {} : await userOptions(user, cluster, clock, env)),
      clock,
    },
  };
}

/**
 * The connection of the Pod that this process runs in; `undefined` outside of one.
 *
 * **Errors**: {@link KubeconfigError} if `KUBERNETES_SERVICE_HOST` is set and the files of the service account are missing.
 */
export async function inClusterConnection(
  { clock = systemClock, env = process.env }: ConnectionEnvironment = {},
  folder = "/var/run/secrets/kubernetes.io/serviceaccount",
): Promise<Connection | undefined> {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = env["KUBERNETES_SERVICE_PORT"];
  if (!host || !port) return undefined;
  const read = async (file: string): Promise<string> => {
    try {
      return await readFile(`${folder}/${file}`, "utf8");
    } catch (error) {
      throw new KubeconfigError(
        `KUBERNETES_SERVICE_HOST is set, but ${folder}/${file} of the service account cannot be read: ${(error as Error).message}`,
        { cause: error },
      );
    }
  };
  const ca = await read("ca.crt");
  const namespace = (await read("namespace").catch(() => "default")).trim();
  return {
    context: "in-cluster",
    namespace,
    transport: {
      server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      ca,
      credentials: new TokenFile(`${folder}/token`, clock),
      clock,
    },
  };
}

function referencedEntry(
  context: KubeconfigEntry,
  field: string,
  entries: ReadonlyMap<string, KubeconfigEntry>,
): KubeconfigEntry | undefined {
  const name = stringField(context, field);
  if (name === undefined) return undefined;
  const entry = entries.get(name);
  if (entry === undefined) throw fieldError(context, field, `refers to ${JSON.stringify(name)}, which does not exist`);
  return entry;
}

async function clusterOptions(cluster: KubeconfigEntry): Promise<HttpTransportOptions> {
  const server = stringField(cluster, "server");
  if (server === undefined) throw fieldError(cluster, "server", "is missing");
  if (!/^https?:\/\//.test(server) || !URL.canParse(server)) {
    throw fieldError(cluster, "server", `is ${JSON.stringify(server)}, which is not an https:// or http:// URL`);
  }
  const ca = await pemField(cluster, "certificate-authority");
  const insecure = booleanField(cluster, "insecure-skip-tls-verify");
  if (insecure && ca !== undefined) {
    throw fieldError(cluster, "insecure-skip-tls-verify", "must not be true together with a certificate authority");
  }
  const proxyUrl = stringField(cluster, "proxy-url");
  if (proxyUrl !== undefined && !/^https?:\/\//.test(proxyUrl)) {
    throw fieldError(cluster, "proxy-url", `is ${JSON.stringify(proxyUrl)}; only http:// and https:// proxies are supported`);
  }
  const tlsServerName = stringField(cluster, "tls-server-name");
  return {
    server,
    ...(ca === undefined ? {} : { ca }),
    ...(insecure ? { insecureSkipTlsVerify: true } : {}),
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
    ...(tlsServerName === undefined ? {} : { tlsServerName }),
  };
}

async function userOptions(
  user: KubeconfigEntry,
  cluster: KubeconfigEntry,
  clock: Clock,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly credentials: CredentialSource; readonly impersonate?: Impersonation }> {
  if (user.fields["auth-provider"] !== undefined) {
    throw fieldError(user, "auth-provider", "is not supported (Kubernetes removed it in 1.26); use exec");
  }
  const impersonate = impersonationOf(user);
  return {
    credentials: await credentialsOf(user, cluster, clock, env),
    ...(impersonate === undefined ? {} : { impersonate }),
  };
}

async function credentialsOf(
  user: KubeconfigEntry,
  cluster: KubeconfigEntry,
  clock: Clock,
  env: Readonly<Record<string, string | undefined>>,
): Promise<CredentialSource> {
  const clientCertificate = await pemField(user, "client-certificate");
  const clientKey = await pemField(user, "client-key");
  if ((clientCertificate === undefined) !== (clientKey === undefined)) {
    const missing = clientCertificate === undefined ? "client-certificate" : "client-key";
    throw fieldError(user, missing, "is missing; a client certificate requires its key and vice versa");
  }
  const username = stringField(user, "username");
  const credentials: Credentials = {
    ...(clientCertificate === undefined ? {} : { clientCertificate }),
    ...(clientKey === undefined ? {} : { clientKey }),
    ...(username === undefined ? {} : { basic: { username, password: stringField(user, "password") ?? "" } }),
  };
  const tokenFile = stringField(user, "tokenFile");
  if (tokenFile !== undefined) return new TokenFile(resolve(dirname(user.file), tokenFile), clock, credentials);
  const exec = user.fields["exec"];
  if (exec !== undefined && exec !== null) {
    if (!isJsonObject(exec)) throw fieldError(user, "exec", "is not an object");
    const entry = { name: user.name, file: user.file, path: `${user.path}.exec`, fields: exec };
    return new ExecCredentials({ entry, cluster: cluster.fields, clock, env });
  }
  const token = stringField(user, "token");
  const fixed = token === undefined ? credentials : { ...credentials, token };
  return { get: () => Promise.resolve(fixed) };
}

function impersonationOf(user: KubeconfigEntry): Impersonation | undefined {
  const as = stringField(user, "as");
  const uid = stringField(user, "as-uid");
  const groups = stringsField(user, "as-groups");
  const extra = user.fields["as-user-extra"];
  if (as === undefined) {
    if (uid !== undefined || groups !== undefined || extra !== undefined)
      throw fieldError(user, "as", "is required with as-uid, as-groups or as-user-extra");
    return undefined;
  }
  if (extra !== undefined && !isJsonObject(extra)) throw fieldError(user, "as-user-extra", "is not an object");
  const path = `${user.path}.as-user-extra`;
  const lists = Object.keys(extra ?? {}).map((key) => {
    const list = stringsField({ name: user.name, file: user.file, path, fields: extra ?? {} }, key) ?? [];
    return [key, list] as const;
  });
  return {
    user: as,
    ...(uid === undefined ? {} : { uid }),
    ...(groups === undefined ? {} : { groups }),
    ...(lists.length === 0 ? {} : { extra: Object.fromEntries(lists) }),
  };
}

/** PEM from `<name>-data` (base64), or else from the file in `<name>`. */
async function pemField(entry: KubeconfigEntry, name: string): Promise<string | undefined> {
  const data = stringField(entry, `${name}-data`);
  if (data !== undefined) {
    const pem = Buffer.from(data, "base64").toString("utf8");
    if (!/^[A-Za-z0-9+/=\s]+$/.test(data) || !pem.includes("-----BEGIN"))
      throw fieldError(entry, `${name}-data`, "is not base64-encoded PEM");
    return pem;
  }
  const file = stringField(entry, name);
  if (file === undefined) return undefined;
  try {
    return await readFile(resolve(dirname(entry.file), file), "utf8");
  } catch (error) {
    throw fieldError(entry, name, `refers to a file that cannot be read: ${(error as Error).message}`, error);
  }
}
