import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isJsonObject, type JsonObject, type KubernetesObject, StatusError } from "@keelson/api-machinery";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { AuditMetrics } from "../audit/audit-metrics.ts";
import { auditedHandle } from "../audit/audited-handle.ts";
import { Auditor } from "../audit/auditor.ts";
import { readAuditPolicy } from "../audit/read-policy.ts";
import type { Handle } from "../endpoints/outcome.ts";
import { createSeededRandom, type RandomSource } from "../endpoints/random-source.ts";
import { createInProcessTransport } from "../in-process-transport.ts";
import type { ResourceTable, UserInfo } from "../registry/served-resource.ts";
import { type ApiServer, type ApiServerOptions, createApiServer } from "../server.ts";
import { systemUser } from "../system-user.ts";
import type { Store } from "../storage/store.ts";
import { type Faults, withFaults } from "./faults.ts";

/** What {@link startTestEnvironment} takes. */
export interface TestEnvironmentOptions
  extends Pick<
    ApiServerOptions,
    | "admission"
    | "kinds"
    | "requiresServiceAccounts"
    | "authorize"
    | "subresources"
    | "webhookMetrics"
    | "webhookCertificate"
    | "onError"
  > {
  /** Default: the system clock. A virtual clock controls latency, bookmarks and timeouts. */
  readonly clock?: Clock;
  /** Default: new names and uids in each environment. */
  readonly random?: RandomSource;
  /** Records the requests of all transports by a policy. Default: none. */
  readonly audit?: EnvironmentAudit;
  /** CustomResourceDefinitions (`ResourceDefinition.crd`) to serve from the start. */
  readonly crds?: readonly KubernetesObject[];
  /**
   * Controllers to run with the server, started in this order and stopped before it: `garbageCollection` or `clusterControllers` of
   * `@keelson/cluster/testing`, or your own. Default: none, as in envtest: dependents are not garbage-collected, and namespaces stay Terminating.
   */
  readonly controllers?: readonly EnvironmentController[];
}

/** The audit events of a test environment. */
export interface EnvironmentAudit {
  /** An audit.k8s.io/v1 Policy. */
  readonly policy: JsonObject;
  /** Receives each event (audit.k8s.io/v1 Event) immediately. */
  readonly onEvent: (event: JsonObject) => void;
}

/** Starts a controller in a test environment whose kinds are already served. */
export type EnvironmentController = (environment: TestEnvironment) => Promise<{ stop(): Promise<void> }>;

/** A fresh, isolated API server. */
export interface TestEnvironment extends AsyncDisposable {
  readonly server: ApiServer;
  readonly store: Store;
  readonly resources: ResourceTable;
  readonly clock: Clock;
  readonly handle: Handle;
  readonly faults: Faults;
  /** A transport for a client. Default user: one with all permissions. */
  transport(user?: UserInfo, userAgent?: string): Transport;
  /** Installs CustomResourceDefinitions and waits until they are served. */
  install(crds: readonly KubernetesObject[]): Promise<void>;
  /** Stops it and removes its storage. */
  stop(): Promise<void>;
}

/**
 * Starts an API server for a test: isolated from all others, ready in milliseconds, without a listener, with its storage in a
 * temporary directory that is removed when it stops.
 *
 * **Example**
 *
 *     await using environment = await startTestEnvironment({ crds: [Robot.crd] });
 *     const client = createClient({ transport: environment.transport(), fieldManager: "test" });
 */
export async function startTestEnvironment(options: TestEnvironmentOptions = {}): Promise<TestEnvironment> {
  const { clock = systemClock, crds = [], controllers = [], random = createSeededRandom(seed()), audit, ...rest } = options;
  const dataDir = mkdtempSync(join(tmpdir(), "keelson-test-"));
  const remove = (): void => rmSync(dataDir, { recursive: true, force: true });
  try {
    const server = await createApiServer({ ...rest, clock, random, storage: { dataDir, sync: false } });
    const audited = audit === undefined ? server.handle : withAudit(server.handle, audit, clock, random);
    const { handle, faults } = withFaults(audited, clock);
    const running: { stop(): Promise<void> }[] = [];
    const stop = async (): Promise<void> => {
      for (const controller of running.splice(0).reverse()) await controller.stop();
      await server.close();
      remove();
    };
    const environment: TestEnvironment = {
      server,
      store: server.store,
      resources: server.resources,
      clock,
      handle,
      faults,
      transport: (user = systemUser, userAgent = "test") => createInProcessTransport(handle, { user, userAgent }),
      install: (more) => installCrds(server, more),
      stop,
      [Symbol.asyncDispose]: stop,
    };
    try {
      await environment.install(crds);
      for (const start of controllers) running.push(await start(environment));
    } catch (error) {
      await stop();
      throw error;
    }
    return environment;
  } catch (error) {
    remove();
    throw error;
  }
}

function withAudit(handle: Handle, audit: EnvironmentAudit, clock: Clock, random: RandomSource): Handle {
  const auditor = new Auditor({
    policy: readAuditPolicy(audit.policy),
    clock,
    metrics: new AuditMetrics(),
    write: (line) => audit.onEvent(JSON.parse(line) as JsonObject),
  });
  return auditedHandle(handle, auditor, () => random.uuid());
}

/** A different seed for each environment of each process. */
let environments = process.pid << 12;

function seed(): number {
  environments += 1;
  return environments;
}

async function installCrds({ handle, resources }: ApiServer, crds: readonly KubernetesObject[]): Promise<void> {
  await Promise.all(
    crds.map(async (crd) => {
      const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
      const outcome = await handle({ method: "POST", path, body: crd, user: systemUser, userAgent: "test" });
      if (outcome.kind === "status") throw new StatusError(outcome.status);
      await served(resources, crd);
    }),
  );
}

/** Resolves when all served versions of the CRD are in the table. */
function served(resources: ResourceTable, crd: KubernetesObject): Promise<void> {
  const spec: unknown = Reflect.get(crd, "spec");
  const names = isJsonObject(spec) && isJsonObject(spec["names"]) ? spec["names"] : {};
  const group = isJsonObject(spec) ? String(spec["group"]) : "";
  const versions = isJsonObject(spec) && Array.isArray(spec["versions"]) ? spec["versions"].filter(isJsonObject) : [];
  const expected = versions.filter((version) => version["served"] === true).map((version) => String(version["name"]));
  const isServed = (): boolean =>
    expected.every((version) => resources.get(group, version, String(names["plural"])) !== undefined);
  if (isServed()) return Promise.resolve();
  return new Promise((resolve) => {
    const stop = resources.onChange(() => {
      if (!isServed()) return;
      stop();
      resolve();
    });
  });
}
