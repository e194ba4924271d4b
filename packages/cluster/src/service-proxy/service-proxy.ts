import { connect, createServer, type Server, type Socket } from "node:net";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { EndpointSlice, type EndpointSliceObject, Service, type ServiceObject } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { type ServiceRoute, serviceRoutes } from "./service-routes.ts";
import { ClusterError } from "../cluster-error.ts";

/** Options of {@link startServiceProxy}. */
export interface ServiceProxyOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A running service proxy. */
export interface ServiceProxy {
  stop(): Promise<void>;
}

interface Listener {
  route: ServiceRoute;
  readonly server: Server;
  readonly sockets: Set<Socket>;
  turn: number;
}

/** Connections to Services that the proxy forwards, in total and to those of one namespace. Each takes two file descriptors. */
const maxConnections = 4_000;
const maxConnectionsPerNamespace = 1_000;

/** A backend that does not accept a connection within this time is skipped. */
const connectMs = 3_000;
/** The delay before listening on an occupied port is retried. */
const retryMs = 5_000;

/**
 * Listens on the address of every Service and balances TCP connections round-robin over its ready endpoints. A backend that refuses
 * is skipped; with none left, or beyond the limit of connections, the connection is reset. Established connections survive endpoint changes. UDP, node ports and session
 * affinity are not supported.
 */
export async function startServiceProxy(options: ServiceProxyOptions): Promise<ServiceProxy> {
  return new TcpProxy(options);
}

class TcpProxy implements ServiceProxy {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #services = new Map<string, DeepReadonly<ServiceObject>>();
  readonly #slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  readonly #listeners = new Map<string, Listener>();
  readonly #stopping = new AbortController();
  readonly #runs: readonly Promise<void>[];
  /** Whether routes are about to be updated. */
  #isDue = false;
  #retry: Timer | undefined;
  /** Services with ports beyond the limits, so that each is logged once. */
  #limited: ReadonlySet<string> = new Set();
  /** Open connections by the namespace of their Service, and in total. */
  readonly #connections = new Map<string, number>();
  #connectionCount = 0;

  constructor(options: ServiceProxyOptions) {
    this.#clock = options.clock;
    this.#log = options.log;
    const informers = [this.#follow(options, Service, this.#services), this.#follow(options, EndpointSlice, this.#slices)];
    this.#runs = informers.map((informer) => informer.run(this.#stopping.signal));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#retry?.cancel();
    for (const listener of this.#listeners.values()) close(listener);
    this.#listeners.clear();
    await Promise.allSettled(this.#runs);
  }

  #follow<T extends KubernetesObject>(
    { client, clock, random, log }: ServiceProxyOptions,
    type: typeof Service | typeof EndpointSlice,
    map: Map<string, DeepReadonly<T>>,
  ): Informer {
    const onEffect = (effect: StoreEffect): void => {
      keep(map, effect);
      this.#changed();
    };
    return new Informer({ client, type, clock, random, log, onEffect });
  }

  #changed(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => this.#settle());
  }

  /** Opens and closes listeners until they match the routes. */
  #settle(): void {
    this.#isDue = false;
    if (this.#stopping.signal.aborted) return;
    const { routes, limited } = serviceRoutes(this.#services.values(), this.#slices.values());
    for (const service of limited) {
      if (!this.#limited.has(service)) this.#log.warn({ service }, "too many ports of services; not listening on all of them");
    }
    this.#limited = limited;
    for (const [key, listener] of this.#listeners) {
      if (routes.has(key)) continue;
      this.#listeners.delete(key);
      close(listener);
    }
    for (const [key, route] of routes) {
      const listener = this.#listeners.get(key);
      if (listener === undefined) this.#open(key, route);
      else listener.route = route;
    }
  }

  #open(key: string, route: ServiceRoute): void {
    const sockets = new Set<Socket>();
    const server = createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
      socket.on("error", () => socket.destroy());
      if (!this.#admit(socket, route.namespace)) return;
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      const { backends } = listener.route;
      const first = listener.turn++;
      const inTurn = backends.map((_, index) => backends[(first + index) % backends.length] ?? { host: "", port: 0 });
      forward(socket, inTurn, this.#clock, sockets);
    });
    const listener: Listener = { route, server, sockets, turn: 0 };
    this.#listeners.set(key, listener);
    server.on("error", (error) => {
      this.#listeners.delete(key);
      this.#log.warn({ err: error, service: route.name, address: key }, "could not listen on a service address; retrying");
      this.#retryLater();
    });
    server.listen({ host: route.host, port: route.port });
  }

  /** Counts a connection until it closes, or resets it beyond the limits. */
  #admit(socket: Socket, namespace: string): boolean {
    const count = this.#connections.get(namespace) ?? 0;
    if (count >= maxConnectionsPerNamespace || this.#connectionCount >= maxConnections) {
      socket.resetAndDestroy();
      return false;
    }
    this.#connections.set(namespace, count + 1);
    this.#connectionCount += 1;
    socket.once("close", () => {
      const open = this.#connections.get(namespace) ?? 1;
      if (open > 1) this.#connections.set(namespace, open - 1);
      else this.#connections.delete(namespace);
      this.#connectionCount -= 1;
    });
    return true;
  }

  #retryLater(): void {
    this.#retry ??= this.#clock.setTimer(
      retryMs,
      () => {
        this.#retry = undefined;
        this.#changed();
      },
      { background: true },
    );
  }
}

function close({ server, sockets }: Listener): void {
  server.close();
  for (const socket of sockets) socket.destroy();
}

/** Connects `socket` to the first backend that accepts. */
function forward(
  socket: Socket,
  backends: readonly { readonly host: string; readonly port: number }[],
  clock: Clock,
  sockets: Set<Socket>,
): void {
  const [backend, ...others] = backends;
  if (backend === undefined) {
    socket.resetAndDestroy();
    return;
  }
  const upstream = connect({ host: backend.host, port: backend.port, noDelay: true, allowHalfOpen: true });
  sockets.add(upstream);
  let isConnected = false;
  const timer = clock.setTimer(connectMs, () => upstream.destroy(new ClusterError("Timeout", "connection timed out")));
  upstream.on("connect", () => {
    isConnected = true;
    timer.cancel();
    socket.pipe(upstream);
    upstream.pipe(socket);
  });
  upstream.on("error", () => {
    timer.cancel();
    if (isConnected) socket.destroy();
    else if (!socket.destroyed) forward(socket, others, clock, sockets);
  });
  upstream.on("close", () => {
    timer.cancel();
    sockets.delete(upstream);
    if (isConnected) socket.end();
  });
  socket.on("close", () => upstream.destroy());
}

function keep<T extends KubernetesObject>(map: Map<string, DeepReadonly<T>>, effect: StoreEffect): void {
  const key = ({ metadata }: { readonly metadata: { readonly namespace?: string; readonly name?: string } }): string =>
    `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
  if (effect.kind === "replace") {
    map.clear();
    for (const object of effect.objects) map.set(key(object), object as DeepReadonly<T>);
  } else if (effect.kind === "put") map.set(key(effect.object), effect.object as DeepReadonly<T>);
  else map.delete(key(effect.object));
}
