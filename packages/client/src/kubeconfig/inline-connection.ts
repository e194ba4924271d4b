import type { Clock } from "@keelson/api-machinery/time";
import { type Connection, connectionOf } from "./connection.ts";
import { fieldError, KubeconfigError, mergeKubeconfigs } from "./kubeconfig.ts";

/** Maximum length of a kubeconfig in an object, in characters. */
const maxLength = 64 * 1024;

/** Fields that read files of this machine or run programs on it. */
const localFields = {
  cluster: ["certificate-authority"],
  user: ["client-certificate", "client-key", "tokenFile", "exec", "auth-provider"],
} as const;

/** Options of {@link inlineConnection}. */
export interface InlineConnectionOptions {
  /** Names the kubeconfig in messages, such as `Secret default/far`. */
  readonly source: string;
  /** Default: the current context. */
  readonly context?: string | undefined;
  readonly clock?: Clock;
}

/**
 * The connection of a kubeconfig that comes from an object and is not trusted. It must contain its certificates and credentials: fields that
 * read files or run programs are rejected. Neither files nor environment variables of this process are used.
 *
 * **Errors**: {@link KubeconfigError} with the source and the field.
 */
export async function inlineConnection(text: string, options: InlineConnectionOptions): Promise<Connection> {
  const { source, context, clock } = options;
  if (text.length > maxLength) {
    throw new KubeconfigError(`kubeconfig ${source}: must have at most ${maxLength} characters, has ${text.length}`);
  }
  const config = await mergeKubeconfigs([{ file: source, text }]);
  for (const entry of config.clusters.values()) rejectFields(entry, localFields.cluster);
  for (const entry of config.users.values()) rejectFields(entry, localFields.user);
  return connectionOf(config, context, { env: {}, ...(clock === undefined ? {} : { clock }) });
}

function rejectFields(entry: Parameters<typeof fieldError>[0], names: readonly string[]): void {
  for (const name of names) {
    if (Object.hasOwn(entry.fields, name) && entry.fields[name] !== null && entry.fields[name] !== "") {
      throw fieldError(entry, name, "must not be set: certificates, keys and tokens must be inline");
    }
  }
}
