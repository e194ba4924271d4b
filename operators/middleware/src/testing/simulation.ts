import { jsonEquals, type Stored } from "@keelson/api-machinery";
import type { ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import { type ControllerDefinition, type ReconcileContext, type Request, silentLogger } from "@keelson/controller";
import { App, type AppStatus } from "../api/app.ts";
import { createAppController } from "../controllers/app/app.ts";
import { createComponentController } from "../controllers/component/component.ts";
import { createGroupController } from "../controllers/group/group.ts";
import type { MiddlewareServices } from "../controllers/services.ts";
import { PluginReader } from "../plugin/plugin-reader.ts";
import { defaultControllerSettings } from "../settings/controller-settings.ts";
import { pluginConfigMapName } from "../plugin/read-plugin.ts";
import { redisPlugin } from "../plugin/redis-plugin.ts";
import { emptyRedisState, type RedisState } from "./redis-state.ts";
import { createSimulatedRedis, type SimulatedRedis } from "./simulated-redis.ts";
import {
  type AnyObject,
  createSimulatedStore,
  namespace,
  type SimulatedStore,
  type StoreChange,
  type StoreState,
} from "./simulated-store.ts";

/** The environment right after a write or call of the controllers. */
export interface Snapshot {
  readonly store: StoreState;
  readonly redis: RedisState;
  readonly plugins: PluginReader;
  readonly actions: readonly string[];
  readonly events: Simulation["events"];
  readonly errors: readonly Error[];
  readonly now: number;
  readonly addresses: number;
}

/** The three controllers in a simulated environment with virtual time and deterministic randomness. */
export interface Simulation {
  readonly store: SimulatedStore;
  readonly redis: SimulatedRedis;
  /** Writes and agent calls so far. */
  readonly actions: readonly string[];
  /** The environment after each action, if the simulation records it. */
  readonly snapshots: readonly Snapshot[];
  readonly events: readonly { readonly reason: string; readonly note: string }[];
  /** Makes writes and calls fail: returns the error of an action, or undefined. */
  refuse: (action: string) => Error | undefined;
  /** Makes programs crash at their start: returns the output for these parameters, or undefined. */
  crashes: (parameters: Readonly<Record<string, string>>) => string | undefined;
  /** Errors of reconciles. */
  readonly errors: readonly Error[];
  /** The App's status. */
  status(): AppStatus;
  create(spec: object): void;
  /** Merges into the App's spec. */
  change(spec: object): void;
  annotate(annotations: Readonly<Record<string, string>>): void;
  /** Runs until nothing is left to do or `until` holds. Throws if it does not settle. */
  run(until?: () => boolean): Promise<void>;
  /** Kills and restarts the controllers. */
  restart(): void;
  readonly clock: Clock;
}

const maxSteps = 3_000;

/** The ConfigMap of the Redis plugin with a changed document. */
function pluginOf(plugin: (document: string) => string): ConfigMapObject {
  const { name, version, data } = redisPlugin;
  const document = plugin(data["plugin.yaml"] ?? "");
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: pluginConfigMapName(name, version), namespace },
    data: { ...data, "plugin.yaml": document },
  };
}

/** Creates a {@link Simulation} with the Redis plugin. `plugin` may change its document. */
export function createSimulation({
  from,
  isRecorded = false,
  random = () => 0,
  plugin = (document) => document,
}: {
  /** The controllers have crashed in this state, before they saw the result of the last action, and start again. Default: nothing exists. */
  readonly from?: Snapshot | undefined;
  /** Keeps a snapshot after each action. */
  readonly isRecorded?: boolean;
  /** Chooses the next step. Default: reconciles first, in order. */
  readonly random?: () => number;
  readonly plugin?: (document: string) => string;
} = {}): Simulation {
  const actions = [...(from?.actions ?? [])];
  const events = [...(from?.events ?? [])];
  const errors = [...(from?.errors ?? [])];
  const snapshots: Snapshot[] = [];
  const plugins = from?.plugins ?? new PluginReader();
  let now = from?.now ?? Date.UTC(2026, 0, 1);
  let addresses = from?.addresses ?? 0;
  let queue: { readonly controller: ControllerDefinition; readonly request: Request }[] = [];
  let timers: { readonly at: number; readonly controller: ControllerDefinition; readonly request: Request }[] = [];
  let stops: (() => void)[] = [];
  let controllers: readonly ControllerDefinition[] = [];

  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    setTimer: () => {
      throw new Error("controllers must not set timers");
    },
  };

  /** Records a write or call of the controllers. */
  function act<T>(name: string, perform: () => T): T {
    const refusal = simulation.refuse(name);
    if (refusal !== undefined) throw refusal;
    actions.push(name);
    const result = perform();
    if (isRecorded) snapshots.push(snapshot());
    return result;
  }

  const redisState = structuredClone(from?.redis ?? emptyRedisState());
  const store = createSimulatedStore(onChange, act, from?.store);
  const redis = createSimulatedRedis(act, redisState);

  function snapshot(): Snapshot {
    const copies = { actions: [...actions], events: [...events], errors: [...errors] };
    return { ...copies, store: store.snapshot(), redis: structuredClone(redisState), plugins, now, addresses };
  }

  function enqueue(controller: ControllerDefinition, request: Request): void {
    if (!queue.some((each) => each.controller === controller && jsonEquals(each.request, request)))
      queue.push({ controller, request });
  }

  /** Maps a change to reconcile requests, like the manager. */
  function onChange({ kind, old, object }: StoreChange): void {
    for (const controller of controllers) {
      for (const each of [old, object]) {
        if (each === undefined) continue;
        const { name = "", ownerReferences = [] } = each.metadata;
        if (controller.for.kind === kind) enqueue(controller, { namespace, name });
        if (controller.owns.some((type) => type.kind === kind)) {
          const owner = ownerReferences.find((reference) => reference.controller && reference.kind === controller.for.kind);
          if (owner !== undefined) enqueue(controller, { namespace, name: owner.name });
        }
        for (const watch of controller.watches.filter(({ type }) => type.kind === kind))
          for (const request of watch.map(each as Stored, { cache: store.cache })) enqueue(controller, request);
      }
    }
  }

  function restart(): void {
    for (const stop of stops) stop();
    queue = [];
    timers = [];
    const { agents } = redis;
    const services: MiddlewareServices = {
      agents,
      settings: defaultControllerSettings,
      plugins,
      agentCommand: ["agent"],
      transferCommand: ["transfer"],
      completePod: (pod) => pod,
      generateSecret: () => "secret",
    };
    controllers = [createAppController(services), createComponentController(services), createGroupController(services)];
    stops = controllers.flatMap((controller) =>
      (controller.triggers ?? []).map(({ start }) =>
        start({ ...store, clock, log: silentLogger, enqueue: (request) => enqueue(controller, request) }),
      ),
    );
    for (const controller of controllers)
      for (const { metadata } of store.all(controller.for.kind)) enqueue(controller, { namespace, name: metadata.name ?? "" });
  }

  async function reconcile({ controller, request }: (typeof queue)[number]): Promise<void> {
    timers = timers.filter((timer) => timer.controller !== controller || !jsonEquals(timer.request, request));
    const context: ReconcileContext = {
      client: store.client,
      cache: store.cache,
      clock,
      log: silentLogger,
      events: { event: (_, { reason, note }) => void events.push({ reason, note }) },
      signal: new AbortController().signal,
    };
    try {
      const result = await controller.reconcile(request, context);
      const afterMs = (result ?? {}).requeueAfterMs;
      if (afterMs !== undefined) timers.push({ at: now + afterMs, controller, request });
    } catch (error) {
      errors.push(error as Error);
      timers.push({ at: now + 1_000, controller, request });
    }
  }

  /** Possible next steps of the kubelet and the volume controller. */
  function machineSteps(): (() => void)[] {
    const steps: (() => void)[] = [];
    for (const claim of store.all("PersistentVolumeClaim")) {
      const name = claim.metadata.name ?? "";
      const { storage } = (claim.spec as { resources: { requests: { storage: string } } }).resources.requests;
      if ((claim.status as { capacity?: { storage: string } } | undefined)?.capacity?.storage !== storage)
        steps.push(() => store.edit("PersistentVolumeClaim", name, (each) => ({ ...each, status: { capacity: { storage } } })));
    }
    for (const pod of store.all("Pod")) {
      const name = pod.metadata.name ?? "";
      const podIP = (pod.status as { podIP?: string } | undefined)?.podIP;
      if (pod.metadata.deletionTimestamp !== undefined) {
        steps.push(() => {
          if (podIP !== undefined) redis.end(podIP);
          store.edit("Pod", name, () => undefined);
        });
      } else if (podIP === undefined) {
        steps.push(() => {
          addresses += 1;
          const ip = `127.1.0.${addresses}`;
          const output = simulation.crashes(configOf(pod as AnyObject).parameters);
          if (output !== undefined) {
            const lastState = { terminated: { exitCode: 1, message: `${output}\n{"level":"error"}\n` } };
            const container = { name: "redis", restartCount: 1, state: { waiting: { reason: "CrashLoopBackOff" } }, lastState };
            store.edit("Pod", name, (each) => ({
              ...each,
              status: { phase: "Running", podIP: ip, containerStatuses: [container] },
            }));
            return;
          }
          store.edit("Pod", name, (each) => ({ ...each, status: { phase: "Running", podIP: ip } }));
          redis.start({ ip, pod: name, ...configOf(pod as AnyObject) });
        });
      }
    }
    return steps;
  }

  function configOf(pod: AnyObject): { version: string; configHash: string; parameters: Record<string, string> } {
    const config = store.get("ConfigMap", `${pod.metadata.name}-config`)?.data?.["parameters.json"] ?? "{}";
    const { hash, parameters } = JSON.parse(config) as { hash: string; parameters: Record<string, string> };
    const [{ image }] = (pod.spec as { containers: [{ image: string }] }).containers;
    return { version: image.split(":")[1] ?? "", configHash: hash, parameters };
  }

  async function run(until: () => boolean = () => false): Promise<void> {
    for (let step = 0; step < maxSteps; step++) {
      if (until()) return;
      redis.write();
      const choices: (() => void | Promise<void>)[] = [
        ...queue.map((item) => async () => {
          queue = queue.filter((each) => each !== item);
          await reconcile(item);
        }),
        ...machineSteps(),
      ];
      const chosen = choices[Math.floor(random() * choices.length)];
      if (chosen !== undefined) {
        await chosen();
        if (random() < 0.5) redis.work();
        continue;
      }
      if (redis.work()) continue;
      const [next] = timers.sort((a, b) => a.at - b.at);
      if (next === undefined) return;
      now = Math.max(now, next.at);
      timers = timers.filter((timer) => timer !== next);
      enqueue(next.controller, next.request);
    }
    throw new Error(`not settled after ${maxSteps} steps: ${JSON.stringify(store.get("App", "cache")?.status, undefined, 1)}`);
  }

  if (from === undefined) store.create("ConfigMap", pluginOf(plugin));
  const simulation: Simulation = {
    refuse: () => undefined,
    crashes: () => undefined,
    store,
    redis,
    actions,
    snapshots,
    events,
    errors,
    clock,
    run,
    restart,
    status: () => (store.get("App", "cache")?.status ?? {}) as AppStatus,
    create: (spec) =>
      store.create(App.kind, { apiVersion: "middleware.io/v1alpha1", kind: "App", metadata: { name: "cache" }, spec }),
    change: (spec) => store.edit("App", "cache", (app) => ({ ...app, spec: { ...app.spec, ...spec } })),
    annotate: (annotations) =>
      store.edit("App", "cache", (app) => ({
        ...app,
        metadata: { ...app.metadata, annotations: { ...app.metadata.annotations, ...annotations } },
      })),
  };
  restart();
  return simulation;
}
