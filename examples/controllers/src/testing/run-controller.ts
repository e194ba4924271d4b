import type { KubernetesObject, ResourceDefinition } from "@keelson/api-machinery";
import { type EnvironmentController, startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type ControllerDefinition, createManager, type Manager } from "@keelson/controller";

/** A controller that runs on its own API server. */
export interface RunningController extends AsyncDisposable {
  readonly client: Client;
  readonly manager: Manager;
}

/** Starts an API server with the CustomResourceDefinitions of `kinds` and runs a controller on it. */
export async function runController(
  controller: ControllerDefinition,
  kinds: readonly Pick<ResourceDefinition, "crd">[],
  controllers: readonly EnvironmentController[] = [],
): Promise<RunningController> {
  const crds: readonly KubernetesObject[] = kinds.map(({ crd }) => crd);
  const environment = await startTestEnvironment({ crds, controllers });
  const client = createClient({ transport: environment.transport(), fieldManager: controller.name });
  const manager = createManager({ client, name: controller.name, controllers: [controller] });
  await manager.start();
  return {
    client,
    manager,
    async [Symbol.asyncDispose]() {
      await manager.stop();
      await environment.stop();
    },
  };
}
