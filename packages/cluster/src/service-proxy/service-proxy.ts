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
  isListening: boolean;
}

/** A backend that does not accept a connection within this time is skipped. */
const connectMs = 3_000;
/** The delay before listening on an occupied port is retried. */
const retryMs = 5_000;

/**
 * Listens on the address of every Service and balances TCP connections round-robin over its ready endpoints. A backend that refuses
 * is skipped; with none left the connection is reset. Established connections survive endpoint changes. UDP, node ports and session
 * affinity are not supported.
 */
export async function startServiceProxy(options: ServiceProxyOptions): Promise<ServiceProxy> {
  const { client, clock, random, log } = options;
  const services = new Map<string, DeepReadonly<ServiceObject>>();
  const slices = new Map<string, DeepReadonly<EndpointSliceObject>>();
  const listeners = new Map<string, Listener>();
  const stopping = new AbortController();
  let isDue = false;
  let retry: Timer | undefined;

  const settle = (): void => {
    isDue = false;
    if (stopping.signal.aborted) return;
    const routes = serviceRoutes(services.values(), slices.values());
    for (const [key, listener] of listeners) {
      if (routes.has(key)) continue;
      listeners.delete(key);
      close(listener);
    }
    for (const [key, route] of routes) {
      const listener = listeners.get(key);
      if (listener === undefined) open(key, route);
      else listener.route = route;
    }
  };
  const changed = (): void => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(settle);
  };

  const open = (key: string, route: ServiceRoute): void => {
    const sockets = new Set<Socket>();
    const server = createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => socket.destroy());
      const { backends } = listener.route;
      const first = listener.turn++;
      forward(
        socket,
        backends.map((_, index) => backends[(first + index) % backends.length] ?? { host: "", port: 0 }),
        clock,
        sockets,
      );
    });
    const listener: Listener = { route, server, sockets, turn: 0, isListening: false };
    listeners.set(key, listener);
    server.on("error", (error) => {
      listeners.delete(key);
      log.warn({ err: error, service: route.name, address: key }, "could not listen on a service address; retrying");
      retry ??= clock.setTimer(
        retryMs,
        () => {
          retry = undefined;
          changed();
        },
        { background: true },
      );
    });
    server.listen({ host: route.host, port: route.port }, () => {
      listener.isListening = true;
    });
  };
  const close = ({ server, sockets }: Listener): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };

  const follow = <T extends KubernetesObject>(
    type: typeof Service | typeof EndpointSlice,
    map: Map<string, DeepReadonly<T>>,
  ): Informer =>
    new Informer({
      client,
      type,
      clock,
      random,
      log,
      onEffect: (effect) => {
        keep(map, effect);
        changed();
      },
    });
  const informers = [follow(Service, services), follow(EndpointSlice, slices)];
  const runs = informers.map((informer) => informer.run(stopping.signal));
  return {
    async stop() {
      stopping.abort();
      retry?.cancel();
      for (const listener of listeners.values()) close(listener);
      listeners.clear();
      await Promise.allSettled(runs);
    },
  };
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
