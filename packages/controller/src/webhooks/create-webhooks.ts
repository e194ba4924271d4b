import { isNotFound } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { Informer } from "../informer/informer.ts";
import type { ManagedWebhooks, ManagedWebhooksContext } from "../manager/managed-webhooks.ts";
import {
  CertificateManager,
  type CertificateStore,
  type CurrentCertificates,
  memoryCertificateStore,
} from "./certificate-manager.ts";
import type { ConversionDefinition } from "./define-conversion.ts";
import { secretCertificateStore } from "./secret-store.ts";
import {
  clientConfig,
  configurationKinds,
  definitionKind,
  webhookEntries,
  type WebhookAddress,
  type WebhookService,
} from "./webhook-configurations.ts";
import type { KindWebhooks, WebhookDefinition } from "./webhook-definition.ts";
import { conversionPath, WebhookServer } from "./webhook-server.ts";

/** Options of {@link createWebhooks}. */
export interface WebhooksOptions {
  /** Default: none. */
  readonly webhooks?: readonly KindWebhooks[];
  /** Default: none. Their CustomResourceDefinitions must be installed before the manager starts. */
  readonly conversions?: readonly ConversionDefinition[];
  /** Port to listen on; 0 picks a free one. Default 9443 with a Service, otherwise 0. */
  readonly port?: number;
  /** Address to listen on. Default: all with a Service, otherwise `127.0.0.1`. */
  readonly host?: string;
  /**
   * The Service by which the API server reaches the webhooks on a cluster. Default: none; the API server runs on this machine (a test environment,
   * `keelson up`) and calls `https://<host>:<port>`. Then only one replica may run.
   */
  readonly service?: WebhookService;
  /**
   * The Secret of the certificates, which all replicas share. Default: `<service>-certificates` in the namespace of the Service; without a Service
   * certificates are kept in memory.
   */
  readonly secret?: { readonly namespace: string; readonly name: string };
  /**
   * PEM of the authority of the API server's client certificate. Requests without a certificate of it are rejected. Default: with a Service, the
   * webhooks are registered under paths with a secret key, and other requests are rejected; kube-apiserver presents a certificate only if it is
   * configured to. Without a Service none is required. That of `keelson up` is of the authority `requestheader-client-ca-file`
   * in the ConfigMap `kube-system/extension-apiserver-authentication`.
   */
  readonly clientAuthority?: string;
  /** Name of the webhook configurations. Default: the manager's. */
  readonly configurationName?: string;
}

/** Webhooks for the `webhooks` option of a manager. */
export interface Webhooks extends ManagedWebhooks {
  /** The port that the server listens on; undefined before the manager has started it. */
  readonly port: number | undefined;
}

/** A CustomResourceDefinition with a conversion is not installed. */
export class MissingDefinitionError extends Error {
  override readonly name = "MissingDefinitionError";
  readonly code = "MissingDefinition";
}

/**
 * Creates the webhooks of a manager: a server over TLS, its certificates, and the configurations by which the API server calls it. The manager
 * starts them before its caches, because lists of converted kinds need the conversion.
 *
 * **Guarantees**: certificates are renewed before they expire, and clients trust a new authority a day before it signs. A changed or deleted
 * configuration is restored. All replicas may write: configurations are applied (the same for all of them), and the Secret is written only with
 * the version that was read.
 */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  return new RunningWebhooks(options);
}

const retryMs = 5_000;

class RunningWebhooks implements Webhooks {
  readonly #options: WebhooksOptions;
  readonly #stopped = new AbortController();
  readonly #followers: Promise<void>[] = [];
  #server: WebhookServer | undefined;
  #port: number | undefined;
  #timer: Timer | undefined;
  /** The last call of `#sync`; calls run one after the other. */
  #syncing: Promise<void> = Promise.resolve();

  constructor(options: WebhooksOptions) {
    this.#options = options;
  }

  get port(): number | undefined {
    return this.#port;
  }

  async start(context: ManagedWebhooksContext): Promise<void> {
    const { service, host = service === undefined ? "127.0.0.1" : "0.0.0.0" } = this.#options;
    const { port = service === undefined ? 0 : 9443, conversions = [], clientAuthority } = this.#options;
    const { client, clock, log } = context;
    const certificates = this.#certificates(client, clock, host);
    const { server: certificate, pathKeys } = await certificates.ensure();
    const signal = this.#stopped.signal;
    const server = new WebhookServer({
      webhooks: this.#definitions(),
      conversions,
      client,
      clock,
      log,
      signal,
      metrics: context.metrics,
      clientAuthority,
    });
    this.#server = server;
    if (this.#hasPathKey) server.acceptPathKeys(pathKeys);
    this.#port = await server.listen(port, host, certificate);
    log.info({ port: this.#port }, "serving webhooks");
    await this.#sync(context, certificates);
    this.#follow(context, () => this.#requestSync(context, certificates));
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#stopped.abort();
    await Promise.all(this.#followers);
    await this.#syncing;
    await this.#server?.stop();
  }

  #definitions(): readonly WebhookDefinition[] {
    return (this.#options.webhooks ?? []).flatMap(({ webhooks }) => webhooks);
  }

  #certificates(client: Client, clock: Clock, host: string): CertificateManager {
    const { service } = this.#options;
    const secret = this.#secret();
    const store: CertificateStore = secret === undefined ? memoryCertificateStore() : secretCertificateStore(client, secret);
    const hosts =
      service === undefined ? [host] : ["svc", "svc.cluster.local"].map((end) => `${service.name}.${service.namespace}.${end}`);
    return new CertificateManager(store, clock, hosts);
  }

  #secret(): WebhooksOptions["secret"] {
    const { service, secret } = this.#options;
    if (secret !== undefined || service === undefined) return secret;
    return { namespace: service.namespace, name: `${service.name}-certificates` };
  }

  /** Renews certificates that are due, and applies the configurations. */
  async #sync(context: ManagedWebhooksContext, certificates: CertificateManager): Promise<void> {
    const current = await certificates.ensure();
    this.#server?.setCertificate(current.server);
    if (this.#hasPathKey) this.#server?.acceptPathKeys(current.pathKeys);
    await this.#configure(context, current);
    this.#timer?.cancel();
    const delayMs = Math.max(current.renewAtMs - context.clock.now(), 0);
    this.#timer = context.clock.setTimer(delayMs, () => this.#requestSync(context, certificates), { background: true });
  }

  #requestSync(context: ManagedWebhooksContext, certificates: CertificateManager): void {
    this.#syncing = this.#syncing.then(async () => {
      if (this.#stopped.signal.aborted) return;
      try {
        await this.#sync(context, certificates);
      } catch (error) {
        if (this.#stopped.signal.aborted) return;
        context.log.error({ err: error }, "webhook configuration failed, retrying");
        this.#timer?.cancel();
        this.#timer = context.clock.setTimer(retryMs, () => this.#requestSync(context, certificates), { background: true });
      }
    });
  }

  /** Whether the key of the path authenticates the API server. */
  get #hasPathKey(): boolean {
    return this.#options.service !== undefined && this.#options.clientAuthority === undefined;
  }

  async #configure({ client, name }: ManagedWebhooksContext, { bundle, pathKeys }: CurrentCertificates): Promise<void> {
    const { configurationName = name, conversions = [] } = this.#options;
    const prefix = this.#hasPathKey ? `/${pathKeys[0]}` : "";
    const address = this.#address();
    // Its own manager: a program that applies the whole CustomResourceDefinition must not lose it to this partial configuration.
    const options = { signal: this.#stopped.signal, fieldManager: `${name}-webhooks` };
    for (const type of ["mutating", "validating"] as const) {
      const definitions = this.#definitions().filter((definition) => definition.type === type);
      if (definitions.length === 0) continue;
      const registered = definitions.map((definition) => ({ ...definition, path: `${prefix}${definition.path}` }));
      const webhooks = webhookEntries(registered, address, bundle);
      await client.apply(configurationKinds[type], { metadata: { name: configurationName }, webhooks }, options);
    }
    for (const { plural, group } of conversions) {
      const crd = `${plural}.${group}`;
      await requireDefinition(client, crd, options.signal);
      const webhook = {
        clientConfig: clientConfig(address, `${prefix}${conversionPath}`, bundle),
        conversionReviewVersions: ["v1"],
      };
      const spec = { conversion: { strategy: "Webhook", webhook } };
      await client.apply(definitionKind, { metadata: { name: crd }, spec }, options);
    }
  }

  #address(): WebhookAddress {
    const { service, host = "127.0.0.1" } = this.#options;
    if (service !== undefined) return { service };
    return { url: `https://${host.includes(":") ? `[${host}]` : host}:${this.#port ?? 0}` };
  }

  /** Follows everything that is written here, to restore it and to learn of certificates that another replica renewed. */
  #follow({ client, clock, random, log, name }: ManagedWebhooksContext, onChange: () => void): void {
    const { configurationName = name, conversions = [] } = this.#options;
    const secret = this.#secret();
    const types = new Set(this.#definitions().map(({ type }) => type));
    const followed = [
      ...[...types].map((type) => ({ type: configurationKinds[type], name: configurationName, namespace: undefined })),
      ...conversions.map(({ plural, group }) => ({ type: definitionKind, name: `${plural}.${group}`, namespace: undefined })),
      ...(secret === undefined ? [] : [{ type: Secret, name: secret.name, namespace: secret.namespace }]),
    ];
    for (const { type, name: object, namespace } of followed) {
      const informer = new Informer({
        ...{ client, clock, random, log, type, namespace },
        selection: { fieldSelector: `metadata.name=${object}` },
        onEffect: onChange,
      });
      this.#followers.push(informer.run(this.#stopped.signal));
    }
  }
}

async function requireDefinition(client: Client, name: string, signal: AbortSignal): Promise<void> {
  try {
    await client.get(definitionKind, { name }, { signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw new MissingDefinitionError(
      `CustomResourceDefinition ${JSON.stringify(name)} not found: install it before the manager starts`,
    );
  }
}
