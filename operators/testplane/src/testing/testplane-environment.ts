import {
  type DeepReadonly,
  defineResource,
  type KubernetesObject,
  type ObjectType,
  type ResourceType,
} from "@keelson/api-machinery";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { type EnvironmentController, startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { Type } from "typebox";
import { testplane } from "../operator.ts";
import { watched } from "@keelson/client/testing";

/** A kind whose operator is simulated by the test. */
export const Lamp = defineResource({
  group: "example.com",
  version: "v1",
  kind: "Lamp",
  plural: "lamps",
  description: "A lamp.",
  spec: Type.Object({ on: Type.Optional(Type.Boolean()), watts: Type.Optional(Type.Integer()) }),
  status: Type.Object({
    observedGeneration: Type.Optional(Type.Integer()),
    phase: Type.Optional(Type.String()),
    url: Type.Optional(Type.String()),
  }),
});
export type Lamp = ObjectType<typeof Lamp>;

/** The testplane operator with its own API server. */
export interface TestplaneEnvironment extends AsyncDisposable {
  readonly environment: TestEnvironment;
  readonly client: Client;
  /** Stops the operator and starts another one. */
  restart(): Promise<void>;
  /** Waits until an object satisfies a predicate; `undefined` means that it does not exist. */
  until<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    isReached: (object: DeepReadonly<T> | undefined) => boolean,
  ): Promise<DeepReadonly<T> | undefined>;
}

/**
 * Starts the operator with the kinds that tests use. `wrapTransport` wraps the operator's transport. `controllers` run with the server.
 * `clock`: that of the operator.
 */
export async function startTestplaneEnvironment(
  wrapTransport: (transport: Transport) => Transport = (transport) => transport,
  controllers: readonly EnvironmentController[] = [],
  clock: Clock = systemClock,
): Promise<TestplaneEnvironment> {
  const crds = [...testplane.resources, Lamp].map(({ crd }) => crd);
  const environment = await startTestEnvironment({ crds, controllers });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const own = createClient({ transport: wrapTransport(environment.transport()), fieldManager: "test" });
  const start = (): Promise<RunningOperator> =>
    startOperator({ operator: testplane, client: own, dataDir: "/nonexistent", clock });
  let operator = await start();
  return {
    environment,
    client,
    restart: async () => {
      await operator.stop();
      operator = await start();
    },
    until: (type, name, isReached) => watched(client, type, name, isReached),
    [Symbol.asyncDispose]: async () => {
      await operator.stop();
      await environment.stop();
    },
  };
}
